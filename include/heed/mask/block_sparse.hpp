// block_sparse: a bool for each rectangle of scores.
#pragma once

#include <cstddef>
#include <type_traits>

#include "heed/mask/mask.hpp"
#include "heed/view/tensor.hpp"

namespace heed {

/// A bool view of rank 2 to 4, [row blocks, key blocks] with heads and batch items before them where wanted; an axis of
/// extent 1 is repeated, whatever its stride. Made from a tensor or a view, which must outlive the call.
class block_map {
 public:
  HEED_FN block_map() noexcept {}
  // Implicit: a member of block_sparse is written as a plain argument.
  template <class View>
  requires(!std::is_same_v<std::remove_cvref_t<View>, block_map>) HEED_INLINE block_map(View&& view)
  noexcept {  // NOLINT
    using view_type = std::remove_cvref_t<View>;
    static_assert(
        detail::tensor_like<View>,
        "heed::block_sparse: blocks must be a heed::tensor or heed::tensor_view of bool (true = attend); wrap "
        "your memory in heed::tensor_view<bool const, 2>(data, {row_blocks, key_blocks})");
    if constexpr (detail::tensor_like<View>) {
      static_assert(std::is_same_v<typename view_type::value_type, bool>,
                    "heed::block_sparse: blocks must be of bool (true = attend); numbers are never read as true or "
                    "false: compare them first, for instance x != 0");
      static_assert(view_type::rank >= 2,
                    "heed::block_sparse: blocks has rank 2, 3 or 4: [row_blocks, key_blocks], with num_heads and "
                    "batch_size before them");
      static_assert(std::is_lvalue_reference_v<View> || !detail::is_tensor<view_type>,
                    "heed::block_sparse: a temporary tensor is gone before the call reads it; give it a name first, "
                    "and pass that");
      data_ = reinterpret_cast<unsigned char const*>(view.data());
      rank_ = static_cast<int>(view_type::rank);
      for (std::size_t axis = 0; axis < view_type::rank; ++axis) {
        extents_[axis + 4 - view_type::rank] = view.extent(axis);
        strides_[axis + 4 - view_type::rank] = view.extent(axis) == 1 ? 0 : view.stride(axis);
      }
    }
  }

  [[nodiscard]] HEED_FN void const* data() const noexcept { return data_; }
  /// 0 where none was given.
  [[nodiscard]] HEED_FN int rank() const noexcept { return rank_; }
  /// Of the four axes [batch, head, row block, key block]; axes that the view does not have are 1.
  [[nodiscard]] HEED_FN index_t extent(std::size_t axis) const noexcept { return extents_[axis]; }
  [[nodiscard]] HEED_FN index_t stride(std::size_t axis) const noexcept { return strides_[axis]; }
  [[nodiscard]] HEED_FN bool at(index_t batch, index_t head, index_t row_block, index_t key_block) const noexcept {
    return data_[batch * strides_[0] + head * strides_[1] + row_block * strides_[2] + key_block * strides_[3]] != 0;
  }

 private:
  unsigned char const* data_ = nullptr;
  int rank_ = 0;
  index_t extents_[4] = {1, 1, 1, 1};
  index_t strides_[4] = {0, 0, 0, 0};
};

/// Score (i, j) is visible iff blocks(i / block_rows, j / block_keys): whole rectangles at a time.
///
/// blocks: a bool tensor or view [Sq / block_rows, Skv / block_keys], both rounded up, aligned right with [batch_size,
///   num_heads, row blocks, key blocks]; true = attend. The memory must outlive the call. Rows and keys are those of
///   the buffers, wherever options.anchor puts them.
/// block_rows, block_keys: any size from 1 up. Multiples of 16 keys cost least: then nothing is looked at one by one.
/// Cost: hidden blocks are never computed; a map of bits is made once per call.
/// Builders: bigbird_blocks, sliding_blocks, strided_blocks in block_sparse_patterns.hpp. Source: Child et al.,
///   "Generating Long Sequences with Sparse Transformers" (2019).
struct block_sparse {
  block_map blocks{};
  index_t block_rows = 64;
  index_t block_keys = 64;

  [[nodiscard]] HEED_FN bool allows(position const& at) const noexcept {
    return blocks.at(at.batch, at.head, at.query / block_rows, at.key / block_keys);
  }

  /// Exact: reads the map until it has seen both kinds.
  [[nodiscard]] HEED_FN cover covers(block const& area) const noexcept {
    bool any_set = false, any_clear = false;
    const index_t last_row = (area.query_end - 1) / block_rows, last_key = (area.key_end - 1) / block_keys;
    for (index_t row = area.query_begin / block_rows; row <= last_row && !(any_set && any_clear); ++row) {
      for (index_t key = area.key_begin / block_keys; key <= last_key && !(any_set && any_clear); ++key) {
        const bool set = blocks.at(area.batch, area.head, row, key);
        any_set |= set;
        any_clear |= !set;
      }
    }
    if (any_set && any_clear) return cover::partial;
    return any_set ? cover::full : cover::none;
  }

  [[nodiscard]] HEED_FN index_t next_border(block const& area) const noexcept {
    return blocks.extent(2) == 1 ? area.query_end
                                 : detail::lesser((area.query_begin / block_rows + 1) * block_rows, area.query_end);
  }
};

}  // namespace heed
