// scores: S^T = K Q^T for one block of keys and one tile of queries.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/read_ahead.hpp"
#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

// `Rows` keys at once against `Vectors` vectors of queries, all accumulators in registers. Each score is one chain of
// multiply-adds over head_dim, whatever the tile it stands in.
template <class Simd, int Rows, int Vectors>
HEED_VERB void score_rows(typename Simd::scalar const* query,  // [head_dim, lanes], Vectors of them used
                          typename Simd::scalar const* key,    // [Rows, key_stride]
                          index_t key_stride, index_t head_dim, index_t lanes,
                          typename Simd::scalar* scores,  // [Rows, lanes]
                          typename Simd::vector (&highest)[std::size_t{Vectors}], line_stream& ahead) noexcept {
  using vector = typename Simd::vector;
  vector sum[std::size_t{Rows}][std::size_t{Vectors}];
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) sum[row][v] = vector{};
  }
  HEED_UNROLL_4
  for (index_t dim = 0; dim < head_dim; ++dim) {
    __builtin_prefetch(ahead.next, 0, 2);
    ahead.next += ahead.step;
    vector at[std::size_t{Vectors}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load(at[v], query + dim * lanes + v * Simd::lanes);
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      vector factor;
      Simd::splat(factor, key + row * key_stride + dim);
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) Simd::multiply_add(sum[row][v], factor, at[v]);
    }
  }
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row, scores += lanes) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      Simd::store(scores + v * Simd::lanes, sum[row][v]);
      Simd::larger(highest[v], sum[row][v], highest[v]);
    }
  }
}

/// `head_dim` and `key_stride` count words. Writes scores [keys, lanes] and block_max = max(row_max, the block's
/// scores).
template <class Simd, int Rows, int Vectors>
HEED_VERB void scores(typename Simd::scalar const* query, typename Simd::scalar const* key, index_t key_stride,
                      index_t keys, index_t head_dim, index_t lanes, typename Simd::scalar* scores,
                      typename Simd::scalar const* row_max, typename Simd::scalar* block_max,
                      line_stream ahead) noexcept {
  typename Simd::vector highest[std::size_t{Vectors}];
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) Simd::load(highest[v], row_max + v * Simd::lanes);
  if (keys >= Rows) {
    // The last tile may take up rows of the one before it once more: the same values.
    for (index_t done = 0; done < keys; done += Rows) {
      const index_t first = lesser(done, keys - Rows);
      score_rows<Simd, Rows, Vectors>(query, key + first * key_stride, key_stride, head_dim, lanes,
                                      scores + first * lanes, highest, ahead);
    }
  } else {
    for (index_t row = 0; row < keys; ++row) {
      score_rows<Simd, 1, Vectors>(query, key + row * key_stride, key_stride, head_dim, lanes, scores + row * lanes,
                                   highest, ahead);
    }
  }
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) Simd::store(block_max + v * Simd::lanes, highest[v]);
}

}  // namespace heed::detail
