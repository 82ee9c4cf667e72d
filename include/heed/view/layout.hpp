// The named memory layouts. Logical axes are always [batch_size, num_heads, seq_len, head_dim]; the name says how they
// lie.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include "heed/base/error.hpp"
#include "heed/view/tensor.hpp"

namespace heed {
inline namespace HEED_ABI {

/// A contiguous [batch_size, num_heads, seq_len, head_dim] buffer.
template <class Element, std::integral BatchSize, std::integral NumHeads, std::integral SeqLen, std::integral HeadDim>
[[nodiscard]] constexpr tensor_view<Element, 4> bhsd(Element* data, BatchSize batch_size, NumHeads num_heads,
                                                     SeqLen seq_len, HeadDim head_dim) noexcept {
  return {data, {batch_size, num_heads, seq_len, head_dim}};
}

/// A contiguous [batch_size, seq_len, num_heads, head_dim] buffer, seen as [batch_size, num_heads, seq_len, head_dim].
template <class Element, std::integral BatchSize, std::integral SeqLen, std::integral NumHeads, std::integral HeadDim>
[[nodiscard]] constexpr tensor_view<Element, 4> bshd(Element* data, BatchSize batch_size, SeqLen seq_len,
                                                     NumHeads num_heads, HeadDim head_dim) noexcept {
  const tensor_view<Element, 4> stored(data, {batch_size, seq_len, num_heads, head_dim});
  return {data,
          {batch_size, num_heads, seq_len, head_dim},
          {stored.stride(0), stored.stride(2), stored.stride(1), stored.stride(3)}};
}

/// [B, S, H*D] with any strides, seen as [B, H, S, D]: head h is the columns [h*D, (h+1)*D). No copy.
///
/// Throws: heed::error (heads_not_divisible) unless num_heads >= 1 divides the last extent.
template <class Element, std::integral NumHeads>
[[nodiscard]] tensor_view<Element, 4> split_heads(tensor_view<Element, 3> packed, NumHeads num_heads) {
  const index_t heads = static_cast<index_t>(num_heads);
  if (heads < 1 || packed.extent(2) % heads != 0) {
    detail::raise(errc::heads_not_divisible, "heed::split_heads: num_heads (" + std::to_string(heads) +
                                                 ") must be at least 1 and divide the last extent (" +
                                                 std::to_string(packed.extent(2)) + ")");
  }
  const index_t head_dim = packed.extent(2) / heads;
  return {packed.data(),
          {packed.extent(0), heads, packed.extent(1), head_dim},
          {packed.stride(0), detail::saturating_mul(head_dim, packed.stride(2)), packed.stride(1), packed.stride(2)}};
}
template <class Element, std::integral NumHeads>
[[nodiscard]] tensor_view<Element, 4> split_heads(tensor<Element, 3>& packed, NumHeads num_heads) {
  return split_heads(packed.view(), num_heads);
}
template <class Element, std::integral NumHeads>
[[nodiscard]] tensor_view<Element const, 4> split_heads(tensor<Element, 3> const& packed, NumHeads num_heads) {
  return split_heads(packed.view(), num_heads);
}
template <class Element, std::integral NumHeads>
tensor_view<Element const, 4> split_heads(tensor<Element, 3> const&& packed,
                                          NumHeads num_heads) = delete;  // the memory would be gone

/// [B, H, S, D] seen as [B, S, H*D] without a copy: the inverse of split_heads.
///
/// Throws: heed::error (not_mergeable) unless one stride steps over head and head_dim: stride(1) == head_dim *
/// stride(3), or one of the two axes has extent 1. Write into a view made by split_heads, or copy, where it does not.
template <class Element>
[[nodiscard]] tensor_view<Element, 3> merge_heads(tensor_view<Element, 4> heads) {
  const index_t num_heads = heads.extent(1);
  const index_t head_dim = heads.extent(3);
  index_t stride = heads.stride(3);
  if (head_dim == 1) {
    stride = heads.stride(1);
  } else if (num_heads > 1 && heads.stride(1) != detail::saturating_mul(head_dim, heads.stride(3))) {
    detail::raise(errc::not_mergeable, "heed::merge_heads: the head stride (" + std::to_string(heads.stride(1)) +
                                           ") must be head_dim * the stride of head_dim (" + std::to_string(head_dim) +
                                           " * " + std::to_string(heads.stride(3)) +
                                           "); this view needs a copy, or write into a view made by split_heads");
  }
  return {heads.data(),
          {heads.extent(0), heads.extent(2), detail::saturating_mul(num_heads, head_dim)},
          {heads.stride(0), heads.stride(2), stride}};
}
template <class Element>
[[nodiscard]] tensor_view<Element, 3> merge_heads(tensor<Element, 4>& heads) {
  return merge_heads(heads.view());
}
template <class Element>
[[nodiscard]] tensor_view<Element const, 3> merge_heads(tensor<Element, 4> const& heads) {
  return merge_heads(heads.view());
}
template <class Element>
tensor_view<Element const, 3> merge_heads(tensor<Element, 4> const&& heads) = delete;  // the memory would be gone

}  // namespace HEED_ABI
}  // namespace heed
