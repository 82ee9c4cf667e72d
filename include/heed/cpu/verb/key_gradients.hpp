// key_gradients: what a tile of query rows adds to the gradients of the keys, or of the values, of one block.
#pragma once

#include <cstdint>

#include "heed/base/element.hpp"
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

/// to [keys, stride] += tile [keys, lanes] times from [rows, stride]: rows of whole vectors, aligned to them; `rows`
/// and `lanes` count words. Those of the tile past `rows` are not read.
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

/// Words of query rows that are multiplied in one step, of so many: all, or on tiles, which take sixteen, halves of
/// them.
template <class Simd>
[[nodiscard]] HEED_VERB index_t line_of_rows(index_t words) noexcept {
  if constexpr (Simd::words_per_line == 1) return 1;
  return words <= Simd::words_per_line ? words : ceil_div(words, 2);
}

// The words of `at` of rows that a key may not see (score -inf) become 0, and so do those past `rows`.
template <class Simd>
HEED_VERB void keep_visible_rows(typename Simd::vector& at, typename Simd::scalar const* scores, index_t word,
                                 index_t rows) noexcept {
  using integers = typename Simd::integers;
  const auto sees = [&](index_t row) __attribute__((always_inline)) {
    return row < rows && scores[row] != -infinity<typename Simd::scalar>;
  };
  if constexpr (Simd::elements_per_word == 1) {
    if (!sees(word)) at = typename Simd::vector{};
  } else {
    const int halves = (sees(2 * word) ? 0xffff : 0) | (sees(2 * word + 1) ? ~0xffff : 0);
    const integers left = reinterpret_cast<integers const&>(at) & halves;
    at = reinterpret_cast<typename Simd::vector const&>(left);
  }
}

/// The same where a number that a key may not see may be infinite or NaN, for 0 * NaN is NaN: rows whose score [keys,
/// lanes] is -inf are not added. The others get the bits that they have without it.
template <class Simd>
HEED_VERB void key_gradients_visible(typename Simd::scalar const* tile, index_t tile_stride,
                                     typename Simd::scalar const* scores, index_t lanes, index_t keys,
                                     typename Simd::scalar const* from, index_t rows, index_t stride,
                                     typename Simd::scalar* to) noexcept {
  using vector = typename Simd::vector;
  const index_t words = ceil_div(rows, Simd::elements_per_word);
  const index_t line = line_of_rows<Simd>(words);
  for (index_t key = 0; key < keys; ++key, tile += tile_stride, scores += lanes, to += stride) {
    for (index_t column = 0; column < stride; column += Simd::lanes) {
      vector sum, factor, at;
      Simd::load(sum, to + column);
      vector halves[2]{};  // sums of one line, where that is more than a word
      for (index_t word = 0; word < words; ++word) {
        Simd::splat(factor, tile + word);
        Simd::load(at, from + word * stride + column);
        keep_visible_rows<Simd>(at, scores, word, rows);
        if constexpr (Simd::words_per_line == 1) {
          Simd::multiply_add(sum, factor, at);
        } else {
          Simd::multiply_add_halves(halves, factor, at);
          if (word % line != line - 1 && word != words - 1) continue;
          sum += halves[0] + halves[1];
          halves[0] = halves[1] = vector{};
        }
      }
      Simd::store(to + column, sum);
    }
  }
}

/// A tile [keys, lanes], `vectors` of them: to words [keys, vectors of halves] of neighbouring query rows. Lanes past
/// `rows` become 0: no rule has been asked about them, and they may be infinite.
template <class Simd>
HEED_VERB void round_rows(typename Simd::scalar const* tile, index_t lanes, int vectors, index_t rows, index_t keys,
                          typename Simd::scalar* words) noexcept {
  bfloat16* const first_half = reinterpret_cast<bfloat16*>(words);
  const index_t halves_in_row = index_t{vectors} * Simd::lanes;
  for (index_t key = 0; key < keys; ++key, tile += lanes) {
    typename Simd::vector first, second;
    typename Simd::shorts halves;
    int v = 0;
    for (; v + 2 <= vectors; v += 2, words += Simd::lanes) {
      Simd::load(first, tile + v * Simd::lanes);
      Simd::load(second, tile + (v + 1) * Simd::lanes);
      Simd::round_rows(halves, first, second);
      Simd::store_unaligned(words, reinterpret_cast<typename Simd::vector const&>(halves));
    }
    if (v == vectors) continue;
    Simd::load(first, tile + v * Simd::lanes);
    Simd::round_rows(halves, first, first);
    const auto left = __builtin_shufflevector(halves, halves, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    *reinterpret_cast<typename Simd::loose_shorts*>(words) = reinterpret_cast<typename Simd::loose_shorts const&>(left);
    words += Simd::lanes / 2;
  }
  for (index_t key = 0; rows < halves_in_row && key < keys; ++key) {
    for (index_t lane = rows; lane < halves_in_row; ++lane) {
      first_half[key * halves_in_row + lane] = bfloat16::from_bits(0);
    }
  }
}

// Those of pairs: an exponent of ones, and 1 more, runs over into the sign of its half.
template <class Simd>
HEED_VERB bool all_pairs_finite(typename Simd::scalar const* from, index_t rows, index_t row_stride,
                                index_t columns) noexcept {
  using bits = typename Simd::bits;
  bits found{};
  std::uint32_t rest = 0;
  for (index_t row = 0; row < rows; ++row, from += row_stride) {
    index_t column = 0;
    for (; column + Simd::lanes <= columns; column += Simd::lanes) {
      typename Simd::vector words;
      Simd::load_unaligned(words, from + column);
      found |= (reinterpret_cast<bits const&>(words) & 0x7f807f80u) + 0x00800080u;
    }
    for (; column < columns; ++column) {
      std::uint32_t word;
      __builtin_memcpy(&word, from + column, sizeof word);
      rest |= (word & 0x7f807f80u) + 0x00800080u;
    }
  }
  for (int lane = 0; lane < Simd::lanes; ++lane) rest |= found[lane];
  return (rest & 0x80008000u) == 0;
}

/// Whether rows [rows, row_stride] of words hold no infinity and no NaN.
template <class Simd>
HEED_VERB bool all_finite(typename Simd::scalar const* from, index_t rows, index_t row_stride,
                          index_t columns) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  if constexpr (Simd::elements_per_word > 1) return all_pairs_finite<Simd>(from, rows, row_stride, columns);
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
  return rest == Real(0) && Simd::is_zero(poison[0]);
}

}  // namespace heed::detail
