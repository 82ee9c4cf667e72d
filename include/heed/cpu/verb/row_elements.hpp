// with_row_element: the element types in which K and V rows are read where they lie.
#pragma once

#include "heed/base/element.hpp"
#include "heed/base/index.hpp"
#include "heed/cpu/simd/convert.hpp"

namespace heed::detail {

/// Whether rows of `kind` are widened inside the verbs; others are packed to Real first. Only vectors of 64 bytes: for
/// the others the three sets of tiles cost more to compile than they gain.
template <class Simd>
[[nodiscard]] HEED_VERB constexpr bool reads_in_place(element_kind kind) noexcept {
  if (kind == element_kind_of<typename Simd::scalar>) return true;
  return sizeof(typename Simd::scalar) == 4 && Simd::bytes == 64 && element_size(kind) == 2;
}

/// Calls `visit` with a value of the type, which is one that reads_in_place.
template <class Simd, class Visitor>
HEED_VERB void with_row_element(element_kind kind, Visitor const& visit) noexcept {
  if constexpr (reads_in_place<Simd>(element_kind::bfloat16)) {
    if (kind == element_kind::bfloat16) return visit(bfloat16{});
    if (kind == element_kind::float16) return visit(half{});
  }
  visit(typename Simd::scalar{});
}

inline constexpr index_t cache_line = 64;

/// How many rows ahead of the one in use are asked for: in the order of memory, into the second-level cache, so that
/// they are on their way while several query rows keep the multipliers busy.
template <class Element>
[[nodiscard]] HEED_VERB index_t keys_ahead(index_t columns) noexcept {
  return lesser(64, 1 + 65536 / (columns * static_cast<index_t>(sizeof(Element))));
}

}  // namespace heed::detail
