// pack and unpack: between the caller's elements and strides and the tiles of the verbs. Types and strides end here.
#pragma once

#include "heed/base/element.hpp"
#include "heed/base/index.hpp"
#include "heed/cpu/simd/transpose.hpp"

namespace heed::detail {

/// The caller's rows of Q, K or V: to [rows, columns], contiguous.
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
            for (index_t column = 0; column < columns; ++column) {
              to[column] = static_cast<Real>(line[column * column_stride]);
            }
          }
        }
      });
}

/// The way back: from [rows, columns] to the caller's rows, each element rounded once.
template <class Real>
HEED_VERB void unpack_rows(Real const* from, index_t rows, index_t columns, void* to, element_kind kind,
                           index_t row_stride, index_t column_stride) noexcept {
  with_element(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        element_type* line = static_cast<element_type*>(to);
        for (index_t row = 0; row < rows; ++row, line += row_stride, from += columns) {
          for (index_t column = 0; column < columns; ++column) {
            line[column * column_stride] = static_cast<element_type>(from[column]);
          }
        }
      });
}

/// Rows of Q [rows, row_stride], times scale: to a tile [columns, lanes]. Lanes without a row repeat the last one.
/// Squares of whole vectors are transposed in registers.
template <class Simd>
HEED_VERB void pack_query(typename Simd::scalar const* from, index_t row_stride, index_t rows, index_t columns,
                          typename Simd::scalar scale, int vectors, typename Simd::scalar* to) noexcept {
  const index_t lanes = vectors * Simd::lanes;
  const index_t whole = columns / Simd::lanes * Simd::lanes;
  for (index_t lane = 0; lane < lanes; lane += Simd::lanes) {
    for (index_t column = 0; column < whole; column += Simd::lanes) {
      typename Simd::vector square[Simd::lanes];
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row) {
        Simd::load_unaligned(square[row], from + lesser(lane + row, rows - 1) * row_stride + column);
        square[row] *= scale;
      }
      transpose<Simd>(square);
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row) Simd::store(to + (column + row) * lanes + lane, square[row]);
    }
    for (index_t row = lane; row < lane + Simd::lanes; ++row) {
      typename Simd::scalar const* const line = from + lesser(row, rows - 1) * row_stride;
      for (index_t column = whole; column < columns; ++column) to[column * lanes + row] = line[column] * scale;
    }
  }
}

/// A tile [columns, lanes], each lane times its factor: to rows [rows, row_stride].
template <class Simd>
HEED_VERB void unpack_tile(typename Simd::scalar const* from, typename Simd::scalar const* factor, int vectors,
                           index_t rows, index_t columns, typename Simd::scalar* to, index_t row_stride) noexcept {
  const index_t lanes = vectors * Simd::lanes;
  const index_t whole = columns / Simd::lanes * Simd::lanes;
  for (index_t lane = 0; lane < rows; lane += Simd::lanes) {
    typename Simd::vector times;
    Simd::load(times, factor + lane);
    const index_t end = lesser(lane + Simd::lanes, rows);
    for (index_t column = 0; column < whole; column += Simd::lanes) {
      typename Simd::vector square[Simd::lanes];
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row) {
        Simd::load(square[row], from + (column + row) * lanes + lane);
        square[row] *= times;
      }
      transpose<Simd>(square);
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row) {
        if (lane + row < end) Simd::store_unaligned(to + (lane + row) * row_stride + column, square[row]);
      }
    }
    for (index_t row = lane; row < end; ++row) {
      for (index_t column = whole; column < columns; ++column) {
        to[row * row_stride + column] = from[column * lanes + row] * factor[row];
      }
    }
  }
}

}  // namespace heed::detail
