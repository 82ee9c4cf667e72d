// operand: one argument of a call with its types erased and its axes brought to [batch, head, row, column].
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "heed/base/element.hpp"
#include "heed/view/tensor.hpp"

namespace heed::detail {

/// Rank 4 is [B, H, S, D], rank 3 [B, 1, S, D], rank 2 [1, 1, S, D]; an axis of extent 1 or less has stride 0.
struct operand {
  void* data = nullptr;  // of inputs only read
  element_kind kind = element_kind::none;
  int rank = 0;  // as the caller gave it; 0: not given
  index_t extents[4] = {1, 1, 1, 1};
  index_t strides[4] = {0, 0, 0, 0};

  [[nodiscard]] HEED_INLINE bool given() const noexcept { return rank != 0; }
  [[nodiscard]] HEED_INLINE bool empty() const noexcept {
    return extents[0] <= 0 || extents[1] <= 0 || extents[2] <= 0 || extents[3] <= 0;
  }
  /// The address of [batch, head, row, 0].
  [[nodiscard]] HEED_INLINE void* row(index_t batch, index_t head, index_t row) const noexcept {
    return static_cast<char*>(data) + (batch * strides[0] + head * strides[1] + row * strides[2]) * element_size(kind);
  }
};

template <class Element, std::size_t Rank>
[[nodiscard]] HEED_INLINE operand operand_of(tensor_view<Element, Rank> const& view, bool has_columns = true) noexcept {
  operand result;
  result.data = const_cast<void*>(static_cast<void const*>(view.data()));
  result.kind = element_kind_of<std::remove_const_t<Element>>;
  result.rank = static_cast<int>(Rank);
  // Which of [batch, head, row, column] the view's axes are: from the right, a lone leading axis being the batch.
  // Without a loop, so that the places are constants and the operand is built where it is kept.
  const std::size_t end = has_columns ? 4 : 3;
  const auto take = [&](std::size_t axis) __attribute__((always_inline)) {
    const std::size_t from_right = Rank - 1 - axis;
    std::size_t place = end >= 1 + from_right ? end - 1 - from_right : 0;
    if (axis == 0 && Rank == end - 1) place = 0;
    result.extents[place] = view.extent(axis);
    result.strides[place] = view.extent(axis) <= 1 ? 0 : view.stride(axis);
  };
  [&]<std::size_t... Axis>(std::index_sequence<Axis...>) __attribute__((always_inline)) { (take(Axis), ...); }
  (std::make_index_sequence<Rank>{});
  return result;
}

/// What broadcasts to scores: of any rank, its axes are the last of [batch, head, query, key], and one of extent 1 is
/// repeated, whatever its stride.
template <class View>
[[nodiscard]] HEED_INLINE operand aligned_operand_of(View const& view) noexcept {
  operand result;
  result.data = const_cast<void*>(static_cast<void const*>(view.data()));
  result.kind = element_kind_of<typename View::value_type>;
  result.rank = static_cast<int>(View::rank);
  for (std::size_t axis = 0; axis < View::rank; ++axis) {
    const std::size_t place = axis + 4 - View::rank;
    result.extents[place] = view.extent(axis);
    result.strides[place] = view.extent(axis) == 1 ? 0 : view.stride(axis);
  }
  return result;
}

}  // namespace heed::detail
