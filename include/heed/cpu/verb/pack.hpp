// pack and unpack: between the caller's elements and strides and the tiles of the verbs. Types and strides end here.
#pragma once

#include "heed/base/element.hpp"
#include "heed/base/index.hpp"

namespace heed::detail {

/// Rows of K or V: to [rows, columns], contiguous.
template <class Real>
HEED_VERB void pack_rows(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                         index_t columns, Real* to) noexcept {
  with_element(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        element_type const* line = static_cast<element_type const*>(from);
        for (index_t row = 0; row < rows; ++row, line += row_stride, to += columns) {
          if (column_stride == 1) {
            for (index_t column = 0; column < columns; ++column) to[column] = static_cast<Real>(line[column]);
          } else {
            for (index_t column = 0; column < columns; ++column)
              to[column] = static_cast<Real>(line[column * column_stride]);
          }
        }
      });
}

/// Rows of Q, times scale: to [columns, lanes]. Lanes without a row repeat the last one.
template <class Real>
HEED_VERB void pack_query(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                          index_t columns, Real scale, index_t lanes, Real* to) noexcept {
  with_element(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        element_type const* line = static_cast<element_type const*>(from);
        for (index_t lane = 0; lane < lanes; ++lane) {
          for (index_t column = 0; column < columns; ++column) {
            to[column * lanes + lane] = static_cast<Real>(line[column * column_stride]) * scale;
          }
          if (lane + 1 < rows) line += row_stride;
        }
      });
}

/// A tile [columns, lanes], each lane times its factor, to rows of the caller's.
template <class Real>
HEED_VERB void unpack(Real const* from, Real const* factor, index_t lanes, index_t rows, index_t columns, void* to,
                      element_kind kind, index_t row_stride, index_t column_stride) noexcept {
  with_element(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        element_type* line = static_cast<element_type*>(to);
        for (index_t row = 0; row < rows; ++row, line += row_stride) {
          const Real times = factor[row];
          for (index_t column = 0; column < columns; ++column) {
            line[column * column_stride] = static_cast<element_type>(from[column * lanes + row] * times);
          }
        }
      });
}

}  // namespace heed::detail
