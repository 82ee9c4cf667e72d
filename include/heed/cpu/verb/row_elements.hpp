// with_row_element: the element types in which K and V rows are read where they lie.
#pragma once

#include "heed/base/element.hpp"
#include "heed/base/index.hpp"
#include "heed/cpu/simd/convert.hpp"

namespace heed::detail {

/// Whether rows of `kind` are widened inside the verbs; others are packed to Real first. Only vectors of 64 bytes: for
/// the others one more set of tiles costs more to compile than it gains.
template <class Simd>
[[nodiscard]] HEED_VERB constexpr bool reads_in_place(element_kind kind) noexcept {
  if (kind == element_kind_of<typename Simd::scalar>) return true;
  return sizeof(typename Simd::scalar) == 4 && Simd::bytes == 64 && element_size(kind) == 2;
}

/// Calls `visit` with a value of the type of `kind`: that of the caller's operand if it is read in place, or Real.
template <class Simd, element_kind Own, class Visitor>
HEED_VERB void with_row_element(element_kind kind, Visitor const& visit) noexcept {
  using Real = typename Simd::scalar;
  if constexpr (reads_in_place<Simd>(Own) && Own == element_kind::bfloat16) {
    if (kind == Own) return visit(bfloat16{});
  } else if constexpr (reads_in_place<Simd>(Own) && Own == element_kind::float16) {
    if (kind == Own) return visit(half{});
  }
  visit(Real{});
}

}  // namespace heed::detail
