// accumulate: O^T = O^T * rescale + V^T P^T for one block of keys and one tile of queries.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/read_ahead.hpp"
#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

// `Rows` value dimensions, or pairs of them, at once, all accumulators in registers; each sum is one chain over the
// keys.
template <class Simd, int Rows, int Vectors>
HEED_VERB void accumulate_rows(typename Simd::scalar const* probabilities,  // [words, lanes]
                               typename Simd::scalar const* value,          // [words, value_stride]
                               index_t value_stride, index_t words, index_t lanes,
                               typename Simd::scalar const* start,  // [Rows, lanes]
                               typename Simd::scalar* out,          // [Rows, lanes]
                               typename Simd::scalar const* rescale, line_stream& ahead) noexcept {
  using vector = typename Simd::vector;
  vector sum[std::size_t{Rows}][std::size_t{Vectors}];
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) sum[row][v] = vector{};
  }
  if (start != nullptr) {
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row, start += lanes * Simd::columns_per_lane) {
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) Simd::load(sum[row][v], start + v * Simd::lanes);
    }
  }
  HEED_UNROLL_4
  for (index_t word = 0; word < words; ++word) {
    __builtin_prefetch(ahead.next, 0, 2);
    ahead.next += ahead.step;
    vector at[std::size_t{Vectors}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load_rows(at[v], probabilities + word * lanes + v * Simd::lanes);
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      vector factor;
      Simd::splat(factor, value + word * value_stride + row * Simd::columns_per_lane);
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) Simd::multiply_add(sum[row][v], factor, at[v]);
    }
  }
  if (rescale != nullptr) {
    vector factors[std::size_t{Vectors}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load_rows(factors[v], rescale + v * Simd::lanes);
    typename Simd::scalar const* total = out;
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row, total += lanes * Simd::columns_per_lane) {
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        vector before;
        Simd::load(before, total + v * Simd::lanes);
        sum[row][v] = before * factors[v] + sum[row][v];
      }
    }
  }
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row, out += lanes * Simd::columns_per_lane) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::store(out + v * Simd::lanes, sum[row][v]);
  }
}

// As many value dimensions from `dim` on as come in whole tiles of Rows.
template <class Simd, int Rows, int Vectors>
HEED_VERB void accumulate_groups(typename Simd::scalar const* probabilities, typename Simd::scalar const* value,
                                 index_t value_stride, index_t words, index_t head_dim, index_t lanes,
                                 typename Simd::scalar const* start, typename Simd::scalar* out,
                                 typename Simd::scalar const* rescale, line_stream& ahead, index_t& dim) noexcept {
  constexpr index_t columns = Rows * Simd::columns_per_lane;
  for (; dim + columns <= head_dim; dim += columns) {
    accumulate_rows<Simd, Rows, Vectors>(probabilities, value + dim, value_stride, words, lanes,
                                         start == nullptr ? nullptr : start + dim * lanes, out + dim * lanes, rescale,
                                         ahead);
  }
}

/// out [head_dim, lanes] = out * rescale + sums over the keys; = the sums alone, without `rescale`. The sums go on from
/// `start`, which may be out, and without one from 0: a sum of its own for each block loses less than one over all
/// keys. One word holds one key, or two (bf16_pairs). head_dim may be any number: what is left over by tiles of Rows is
/// done in narrower ones.
template <class Simd, int Rows, int Vectors>
HEED_VERB void accumulate(typename Simd::scalar const* probabilities, typename Simd::scalar const* value,
                          index_t value_stride, index_t words, index_t head_dim, index_t lanes,
                          typename Simd::scalar const* start, typename Simd::scalar* out,
                          typename Simd::scalar const* rescale, line_stream ahead) noexcept {
  static_assert(Vectors == 1 || Simd::columns_per_lane == 1);
  index_t dim = 0;
  const auto take = [&]<int Tile>(std::integral_constant<int, Tile>) __attribute__((always_inline)) {
    accumulate_groups<Simd, Tile, Vectors>(probabilities, value, value_stride, words, head_dim, lanes, start, out,
                                           rescale, ahead, dim);
  };
  take(std::integral_constant<int, Rows>{});
  if constexpr (Rows > 8) take(std::integral_constant<int, 8>{});
  if constexpr (Rows > 4) take(std::integral_constant<int, 4>{});
  take(std::integral_constant<int, 1>{});
}

// All lanes = *value, but 0 for the keys that a row may not see (score -inf).
template <class Simd>
HEED_VERB void visible_value(typename Simd::vector& to, typename Simd::scalar const* value,
                             typename Simd::scalar const* scores, index_t lanes) noexcept {
  using vector = typename Simd::vector;
  const vector hidden = vector{} - infinity<typename Simd::scalar>;
  vector score;
  Simd::splat(to, value);
  Simd::load_rows(score, scores);
  if constexpr (Simd::elements_per_word == 1) {
    to = score == hidden ? vector{} : to;
  } else {
    using integers = typename Simd::integers;
    vector next;
    Simd::load(next, scores + lanes);
    const integers seen = (~(score == hidden) & 0xffff) | (~(next == hidden) & ~0xffff);
    const integers left = reinterpret_cast<integers const&>(to) & seen;
    to = reinterpret_cast<vector const&>(left);
  }
}

/// accumulate, with 0 in place of the values that a row may not see: there 0 * NaN would be NaN. Only tiles with an
/// infinity or a NaN in sight come here; the others would get the same bits. Without `rescale` the sums go on from out.
template <class Simd>
HEED_VERB void accumulate_visible(typename Simd::scalar const* probabilities,  // [words, lanes]
                                  typename Simd::scalar const* scores,         // [keys, lanes], before softmax
                                  typename Simd::scalar const* value,          // [.., head_dim, words_per_line]
                                  index_t value_stride, index_t words, index_t head_dim, int vectors,
                                  typename Simd::scalar* out, typename Simd::scalar const* rescale) noexcept {
  using vector = typename Simd::vector;
  constexpr index_t line = Simd::words_per_line;
  const index_t lanes = vectors * Simd::lanes;
  for (index_t dim = 0; dim < head_dim; dim += Simd::columns_per_lane) {
    for (index_t lane = 0; lane < lanes; lane += Simd::lanes) {
      vector sum{}, factor;
      if (rescale == nullptr) Simd::load(sum, out + dim * lanes + lane);
      vector halves[2]{};  // sums of one line, where that is more than a word
      for (index_t word = 0; word < words; ++word) {
        vector probability;
        Simd::load_rows(probability, probabilities + word * lanes + lane);
        visible_value<Simd>(factor, value + word / line * value_stride + dim * line + word % line,
                            scores + word * Simd::elements_per_word * lanes + lane, lanes);
        if constexpr (line == 1) {
          Simd::multiply_add(sum, factor, probability);
        } else {
          Simd::multiply_add_halves(halves, factor, probability);
          if (word % line != line - 1 && word != words - 1) continue;
          sum += halves[0] + halves[1];
          halves[0] = halves[1] = vector{};
        }
      }
      if (rescale != nullptr) {
        vector before;
        Simd::load(before, out + dim * lanes + lane);
        Simd::load_rows(factor, rescale + lane);
        sum = before * factor + sum;
      }
      Simd::store(out + dim * lanes + lane, sum);
    }
  }
}

}  // namespace heed::detail
