// key_gradients: what a tile of query rows adds to the gradients of the keys, or of the values, of one block.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/vector.hpp"
#include "heed/cpu/verb/scores.hpp"

namespace heed::detail {

// `Keys` keys at once against `Vectors` vectors of columns, all accumulators in registers; each sum is one chain over
// the rows, which goes on from tile to tile.
template <class Simd, int Keys, int Vectors>
HEED_VERB void add_to_keys(typename Simd::scalar const* tile,  // [Keys, lanes], `rows` of them used
                           index_t lanes,
                           typename Simd::scalar const* from,  // [rows, stride]
                           index_t rows, index_t stride,
                           typename Simd::scalar* to) noexcept {  // [Keys, stride]
  using vector = typename Simd::vector;
  vector sum[std::size_t{Keys}][std::size_t{Vectors}];
  HEED_UNROLL
  for (int key = 0; key < Keys; ++key) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load(sum[key][v], to + key * stride + v * Simd::lanes);
  }
  typename Simd::scalar const* fourth[std::size_t{(Keys + 3) / 4}];
  index_t behind[4] = {0, lanes, 2 * lanes, 3 * lanes};
  HEED_UNROLL
  for (int i = 0; i < (Keys + 3) / 4; ++i) {
    fourth[i] = tile + 4 * i * lanes;
    forget_origin(fourth[i]);
  }
  HEED_UNROLL
  for (int i = 1; i < 4; ++i) forget_origin(behind[i]);
  HEED_UNROLL_4
  for (index_t row = 0; row < rows; ++row, from += stride) {
    vector at[std::size_t{Vectors}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load(at[v], from + v * Simd::lanes);
    HEED_UNROLL
    for (int key = 0; key < Keys; ++key) {
      vector factor;
      Simd::splat(factor, key % 4 == 0 ? fourth[key / 4] : fourth[key / 4] + behind[key % 4]);
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) Simd::multiply_add(sum[key][v], factor, at[v]);
    }
    HEED_UNROLL
    for (int i = 0; i < (Keys + 3) / 4; ++i) ++fourth[i];
  }
  HEED_UNROLL
  for (int key = 0; key < Keys; ++key) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::store(to + key * stride + v * Simd::lanes, sum[key][v]);
  }
}

// The same for all columns of some keys.
template <class Simd, int Keys, int Vectors>
HEED_VERB void add_columns_to_keys(typename Simd::scalar const* tile, index_t lanes, typename Simd::scalar const* from,
                                   index_t rows, index_t stride, typename Simd::scalar* to) noexcept {
  index_t column = 0;
  for (; column + Vectors * Simd::lanes <= stride; column += Vectors * Simd::lanes) {
    add_to_keys<Simd, Keys, Vectors>(tile, lanes, from + column, rows, stride, to + column);
  }
  for (; column < stride; column += Simd::lanes) {
    add_to_keys<Simd, Keys, 1>(tile, lanes, from + column, rows, stride, to + column);
  }
}

/// to [keys, stride] += tile [keys, lanes] times from [rows, stride]: rows of whole vectors, aligned to them. Lanes of
/// the tile past `rows` are not read.
template <class Simd, int Keys, int Vectors>
HEED_VERB void key_gradients(typename Simd::scalar const* tile, index_t lanes, index_t keys,
                             typename Simd::scalar const* from, index_t rows, index_t stride,
                             typename Simd::scalar* to) noexcept {
  index_t key = 0;
  // The rest of a block had better be fours than ones.
  for (; key + Keys <= keys && (Keys % 4 == 0 || (keys - key) % 4 != 0 || keys - key > 8); key += Keys) {
    add_columns_to_keys<Simd, Keys, Vectors>(tile + key * lanes, lanes, from, rows, stride, to + key * stride);
  }
  for (; key + 4 <= keys; key += 4) {
    add_columns_to_keys<Simd, 4, Vectors>(tile + key * lanes, lanes, from, rows, stride, to + key * stride);
  }
  for (; key < keys; ++key) {
    add_columns_to_keys<Simd, 1, Vectors>(tile + key * lanes, lanes, from, rows, stride, to + key * stride);
  }
}

/// The same where a number that a key may not see may be infinite or NaN, for 0 * NaN is NaN: only rows whose score
/// [keys, lanes] is not -inf are added. The others get the bits that they have without it.
template <class Simd>
HEED_VERB void key_gradients_visible(typename Simd::scalar const* tile, typename Simd::scalar const* scores,
                                     index_t lanes, index_t keys, typename Simd::scalar const* from, index_t rows,
                                     index_t stride, typename Simd::scalar* to) noexcept {
  using vector = typename Simd::vector;
  for (index_t key = 0; key < keys; ++key, tile += lanes, scores += lanes, to += stride) {
    for (index_t row = 0; row < rows; ++row) {
      if (scores[row] == -infinity<typename Simd::scalar>) continue;
      vector factor;
      Simd::splat(factor, tile + row);
      for (index_t column = 0; column < stride; column += Simd::lanes) {
        vector sum, at;
        Simd::load(sum, to + column);
        Simd::load(at, from + row * stride + column);
        Simd::multiply_add(sum, factor, at);
        Simd::store(to + column, sum);
      }
    }
  }
}

/// Whether rows [rows, row_stride] of the caller's numbers hold no infinity and no NaN.
template <class Simd>
HEED_VERB bool all_finite(typename Simd::scalar const* from, index_t rows, index_t row_stride,
                          index_t columns) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  vector poison[2]{};
  Real rest = 0;
  for (index_t row = 0; row < rows; ++row, from += row_stride) {
    index_t column = 0;
    for (; column + 2 * Simd::lanes <= columns; column += 2 * Simd::lanes) {
      HEED_UNROLL
      for (int i = 0; i < 2; ++i) {
        vector value;
        Simd::load_unaligned(value, from + column + i * Simd::lanes);
        poison[i] += value * Real(0);
      }
    }
    for (; column < columns; ++column) rest += from[column] * Real(0);
  }
  poison[0] += poison[1];
  bool finite = rest == Real(0);
  for (int lane = 0; lane < Simd::lanes; ++lane) finite &= poison[0][lane] == Real(0);
  return finite;
}

}  // namespace heed::detail
