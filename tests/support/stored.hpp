// One logical [batch, head, row, column] tensor in every memory layout that a caller may have, between guard pages,
// with bytes between the elements that must neither be read nor written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "heed/view/tensor.hpp"
#include "support/guarded_memory.hpp"

namespace heed::test {

enum class layout {
  contiguous,
  padded_rows,    // a gap behind every row
  bshd,           // [B, S, H, D]
  transposed,     // [B, H, D, S]
  every_second,   // inner stride 2
  reversed_rows,  // negative row stride
  reversed_all,   // every stride negative
  heads_inside,   // [B, S, D, H]
  odd_address,    // an address that is aligned for the element and for nothing more
  packed_three,   // one third of a [B, S, 3, H, D] buffer
  shared_heads,   // stride 0 over the heads (inputs only: all heads hold the same)
  shared_batch,   // stride 0 over the batch (inputs only)
};
inline constexpr layout output_layouts[] = {
    layout::contiguous,    layout::padded_rows,  layout::bshd,         layout::transposed,  layout::every_second,
    layout::reversed_rows, layout::reversed_all, layout::heads_inside, layout::odd_address, layout::packed_three};
inline constexpr layout input_layouts[] = {layout::contiguous,   layout::padded_rows,  layout::bshd,
                                           layout::transposed,   layout::every_second, layout::reversed_rows,
                                           layout::reversed_all, layout::heads_inside, layout::odd_address,
                                           layout::packed_three, layout::shared_heads, layout::shared_batch};

inline char const* name_of(layout kind) {
  constexpr char const* names[] = {"contiguous",   "padded_rows",   "bshd",         "transposed",
                                   "every_second", "reversed_rows", "reversed_all", "heads_inside",
                                   "odd_address",  "packed_three",  "shared_heads", "shared_batch"};
  return names[static_cast<int>(kind)];
}

/// The bytes of memory that no element owns. As elements of any float type they are NaN.
inline constexpr unsigned char gap_byte = 0xff;

template <class T>
class stored {
 public:
  stored() = default;
  stored(axes<4> extents, layout kind, guarded_memory::edge tight = guarded_memory::edge::back) {
    // Which axis lies innermost, second, third and outermost, and what is between neighbours.
    std::size_t order[4] = {3, 2, 1, 0};
    index_t step = 1, pad = 0, shift = 0;
    switch (kind) {
      case layout::bshd: order[1] = 1, order[2] = 2; break;
      case layout::transposed: order[0] = 2, order[1] = 3; break;
      case layout::heads_inside: order[0] = 1, order[1] = 3, order[2] = 2; break;
      case layout::padded_rows: pad = 5; break;
      case layout::every_second: step = 2; break;
      case layout::odd_address: shift = 3; break;
      case layout::packed_three: order[1] = 1, order[2] = 2; break;
      default: break;
    }
    index_t strides[4] = {};
    index_t stride = step;
    for (int place = 0; place < 4; ++place) {
      const std::size_t axis = order[place];
      strides[axis] = stride;
      const bool shared = (kind == layout::shared_heads && axis == 1) || (kind == layout::shared_batch && axis == 0);
      if (shared) strides[axis] = 0;
      stride *= shared ? 1 : (extents[axis] > 1 ? extents[axis] : 1);
      if (place == 0) stride += pad;
      if (kind == layout::packed_three && axis == 1) stride *= 3;  // q, k, v stand between head and row
    }
    index_t lowest = 0, highest = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (kind == layout::reversed_all || (kind == layout::reversed_rows && axis == 2)) strides[axis] = -strides[axis];
      const index_t reach = strides[axis] * (extents[axis] > 1 ? extents[axis] - 1 : 0);
      (reach < 0 ? lowest : highest) += reach;
    }
    bool empty = false;
    for (std::size_t axis = 0; axis < 4; ++axis) empty = empty || extents[axis] == 0;
    const index_t count = empty ? 0 : highest - lowest + 1 + shift;
    memory_ = guarded_memory(static_cast<std::size_t>(count) * sizeof(T), tight, gap_byte);
    T* const first = reinterpret_cast<T*>(memory_.data()) + (tight == guarded_memory::edge::front ? shift : 0) - lowest;
    view_ = tensor_view<T, 4>(empty ? nullptr : first, extents, {strides[0], strides[1], strides[2], strides[3]});
  }

  [[nodiscard]] tensor_view<T, 4> const& view() const { return view_; }
  [[nodiscard]] tensor_view<T const, 4> read_only() const { return view_; }
  /// Without the head axis, [B, S, D], and without batch and head, [S, D]: for extents of 1.
  [[nodiscard]] tensor_view<T, 3> rank3() const {
    return {view_.data(),
            {view_.extent(0), view_.extent(2), view_.extent(3)},
            {view_.stride(0), view_.stride(2), view_.stride(3)}};
  }
  [[nodiscard]] tensor_view<T, 2> rank2() const {
    return {view_.data(), {view_.extent(2), view_.extent(3)}, {view_.stride(2), view_.stride(3)}};
  }
  /// Without the last axis, for lse: [B, H, S], [B, S], [S].
  [[nodiscard]] tensor_view<T, 3> lse3() const {
    return {view_.data(),
            {view_.extent(0), view_.extent(1), view_.extent(2)},
            {view_.stride(0), view_.stride(1), view_.stride(2)}};
  }
  [[nodiscard]] tensor_view<T, 2> lse2() const {
    return {view_.data(), {view_.extent(0), view_.extent(2)}, {view_.stride(0), view_.stride(2)}};
  }
  [[nodiscard]] tensor_view<T, 1> lse1() const { return {view_.data(), {view_.extent(2)}, {view_.stride(2)}}; }

  /// Every element from f(b, h, row, column), rounded once.
  template <class Function>
  void fill(Function const& f) {
    for (index_t b = 0; b < view_.extent(0); ++b) {
      for (index_t h = 0; h < view_.extent(1); ++h) {
        for (index_t row = 0; row < view_.extent(2); ++row) {
          for (index_t d = 0; d < view_.extent(3); ++d) view_(b, h, row, d) = static_cast<T>(f(b, h, row, d));
        }
      }
    }
  }
  void fill_from(tensor<double, 4> const& values) {
    fill([&](index_t b, index_t h, index_t row, index_t d) { return values(b, h, row, d); });
  }

  /// Whether no byte outside the elements was written.
  [[nodiscard]] bool gaps_intact() const {
    std::vector<bool> owned(memory_.size());
    if (view_.data() != nullptr) {
      for (index_t b = 0; b < view_.extent(0); ++b) {
        for (index_t h = 0; h < view_.extent(1); ++h) {
          for (index_t row = 0; row < view_.extent(2); ++row) {
            for (index_t d = 0; d < view_.extent(3); ++d) {
              const auto place = reinterpret_cast<unsigned char*>(&view_(b, h, row, d)) - memory_.data();
              for (std::size_t byte = 0; byte < sizeof(T); ++byte) owned[static_cast<std::size_t>(place) + byte] = true;
            }
          }
        }
      }
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (!owned[i] && memory_.data()[i] != gap_byte) return false;
    }
    return true;
  }
  /// Whether nothing at all was written since the beginning.
  [[nodiscard]] bool untouched() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (memory_.data()[i] != gap_byte) return false;
    }
    return true;
  }

 private:
  guarded_memory memory_;
  tensor_view<T, 4> view_;
};

}  // namespace heed::test
