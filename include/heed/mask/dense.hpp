// keep_mask and drop_mask: a bool for each score, or for each of a broadcast axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "heed/mask/mask.hpp"
#include "heed/view/tensor.hpp"

namespace heed {

/// A bool view of rank 1 to 4, aligned right with [batch_size, num_heads, seq_len_q, seq_len_kv]; an axis of extent 1
/// is repeated, whatever its stride. The memory must outlive the call. Spelled `keep_mask(view)` (true = attend) or
/// `drop_mask(view)` (true = hidden).
template <bool Keep>
class dense_mask {
 public:
  template <class Mask>
  requires(!std::is_same_v<std::remove_cvref_t<Mask>, dense_mask>) HEED_INLINE
      explicit dense_mask(Mask&& mask) noexcept {
    using mask_type = std::remove_cvref_t<Mask>;
    static_assert(
        detail::tensor_like<Mask>,
        "heed::keep_mask / heed::drop_mask: the argument must be a heed::tensor or heed::tensor_view of bool; "
        "wrap your memory in heed::tensor_view<bool const, R>(data, {extents})");
    if constexpr (detail::tensor_like<Mask>) {
      static_assert(std::is_same_v<typename mask_type::value_type, bool>,
                    "heed::keep_mask / heed::drop_mask: the mask must be of bool (keep_mask: true = attend, drop_mask: "
                    "true = hidden); numbers are never read as true or false: compare them first, for instance x != 0");
      static_assert(std::is_lvalue_reference_v<Mask> || !detail::is_tensor<mask_type>,
                    "heed::keep_mask / heed::drop_mask: a temporary tensor is gone before the call reads it; give it a "
                    "name first, and pass that");
      data_ = reinterpret_cast<unsigned char const*>(mask.data());
      rank_ = static_cast<int>(mask_type::rank);
      for (std::size_t axis = 0; axis < mask_type::rank; ++axis) {
        extents_[axis + 4 - mask_type::rank] = mask.extent(axis);
        strides_[axis + 4 - mask_type::rank] = mask.extent(axis) == 1 ? 0 : mask.stride(axis);
      }
    }
  }

  static constexpr bool keeps = Keep;
  [[nodiscard]] HEED_FN void const* data() const noexcept { return data_; }
  [[nodiscard]] HEED_FN int rank() const noexcept { return rank_; }
  /// Of the four axes [batch, head, query, key]; axes that the view does not have are 1.
  [[nodiscard]] HEED_FN index_t extent(std::size_t axis) const noexcept { return extents_[axis]; }
  [[nodiscard]] HEED_FN index_t stride(std::size_t axis) const noexcept { return strides_[axis]; }

  [[nodiscard]] HEED_FN bool allows(position const& at) const noexcept {
    return (data_[at.batch * strides_[0] + at.head * strides_[1] + at.query * strides_[2] + at.key * strides_[3]] !=
            0) == Keep;
  }

  /// Exact: reads the block's bools until it has seen both kinds.
  [[nodiscard]] HEED_FN cover covers(block const& area) const noexcept {
    unsigned char const* const corner = data_ + area.batch * strides_[0] + area.head * strides_[1];
    const index_t rows = strides_[2] == 0 ? 1 : area.query_end - area.query_begin;
    const index_t keys = strides_[3] == 0 ? 1 : area.key_end - area.key_begin;
    bool any_set = false;
    bool any_clear = false;
    for (index_t row = 0; row < rows && !(any_set && any_clear); ++row) {
      unsigned char const* const line = corner + (area.query_begin + row) * strides_[2] + area.key_begin * strides_[3];
      index_t key = 0;
      if (strides_[3] == 1) {
        for (; key + 8 <= keys && !(any_set && any_clear); key += 8) {
          std::uint64_t eight = 0;
          __builtin_memcpy(&eight, line + key, 8);
          any_set |= eight != 0;
          any_clear |= ((eight - 0x0101010101010101u) & ~eight & 0x8080808080808080u) != 0;
        }
      }
      for (; key < keys && !(any_set && any_clear); ++key) {
        const bool set = line[key * strides_[3]] != 0;
        any_set |= set;
        any_clear |= !set;
      }
    }
    if (any_set && any_clear) return cover::partial;
    return any_set == Keep ? cover::full : cover::none;
  }

 private:
  unsigned char const* data_ = nullptr;
  int rank_ = 0;
  index_t extents_[4] = {1, 1, 1, 1};
  index_t strides_[4] = {0, 0, 0, 0};
};

using keep_mask = dense_mask<true>;
using drop_mask = dense_mask<false>;

}  // namespace heed
