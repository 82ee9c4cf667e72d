// scores: S^T = K Q^T for one block of keys and one tile of queries.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/read_ahead.hpp"
#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

// Hides from GCC how a number came about. It would otherwise step from row to row with an addition each, and additions
// take the ports of multiply-adds; an address of a base and an index costs nothing. Clang finds that by itself.
template <class Number>
HEED_VERB void forget_origin([[maybe_unused]] Number& number) noexcept {
#if !defined(__clang__)
  asm("" : "+r"(number));
#endif
}

// `Rows` keys at once against `Vectors` vectors of queries, all accumulators in registers. Each score is one chain of
// multiply-adds over head_dim, whatever the tile it stands in.
template <class Simd, int Rows, int Vectors>
HEED_VERB void score_rows(typename Simd::scalar const* query,  // [head_dim, lanes] or pairs, Vectors of them used
                          typename Simd::scalar const* key,    // [Rows, key_stride]
                          index_t key_stride, index_t head_dim, index_t lanes,
                          typename Simd::scalar* scores,  // [Rows, lanes]
                          typename Simd::rows::vector (&highest)[std::size_t{Vectors}], line_stream& ahead) noexcept {
  using vector = typename Simd::vector;
  vector sum[std::size_t{Rows}][std::size_t{Vectors}];
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) sum[row][v] = vector{};
  }
  // The places of the rows: of every fourth one, and from there to the three behind it.
  typename Simd::scalar const* fourth[std::size_t{(Rows + 3) / 4}];
  index_t behind[4] = {0, key_stride, 2 * key_stride, 3 * key_stride};
  HEED_UNROLL
  for (int i = 0; i < (Rows + 3) / 4; ++i) {
    fourth[i] = key + 4 * i * key_stride;
    forget_origin(fourth[i]);
  }
  HEED_UNROLL
  for (int i = 1; i < 4; ++i) forget_origin(behind[i]);
  // In shorter runs GCC keeps addresses on the stack, and there they wait for the scores that are on their way to
  // memory (places 4 KiB apart look alike to the processor).
  HEED_UNROLL_8
  for (index_t dim = 0; dim < head_dim; dim += Simd::columns_per_lane) {
    __builtin_prefetch(ahead.next, 0, 2);
    ahead.next += ahead.step;
    vector at[std::size_t{Vectors}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load(at[v], query + dim * lanes + v * Simd::lanes);
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      vector factor;
      Simd::splat(factor, row % 4 == 0 ? fourth[row / 4] : fourth[row / 4] + behind[row % 4]);
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) Simd::multiply_add(sum[row][v], factor, at[v]);
    }
    HEED_UNROLL
    for (int i = 0; i < (Rows + 3) / 4; ++i) fourth[i] += Simd::columns_per_lane;
  }
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row, scores += lanes) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      typename Simd::rows::vector score;
      Simd::add_columns(score, sum[row][v]);
      Simd::rows::store(scores + v * Simd::lanes, score);
      Simd::rows::larger(highest[v], score, highest[v]);
    }
  }
}

// Keys from `done` on, Rows at a time. The last group may take up rows of the one before it once more: the same values.
template <class Simd, int Rows, int Vectors>
HEED_VERB void score_groups(typename Simd::scalar const* query, typename Simd::scalar const* key, index_t key_stride,
                            index_t done, index_t keys, index_t head_dim, index_t lanes, typename Simd::scalar* scores,
                            typename Simd::rows::vector (&highest)[std::size_t{Vectors}], line_stream& ahead) noexcept {
  for (; done < keys; done += Rows) {
    const index_t first = lesser(done, keys - Rows);
    char const* const start = ahead.next;
    score_rows<Simd, Rows, Vectors>(query, key + first * key_stride, key_stride, head_dim, lanes,
                                    scores + first * lanes, highest, ahead);
    ahead.begin_next_group(start);
  }
}

/// `head_dim` and `key_stride` count words. Writes scores [keys, lanes] and block_max = max(row_max, the block's
/// scores). What Rows at a time leave over is done in groups of `Rest`.
template <class Simd, int Rows, int Rest, int Vectors>
HEED_VERB void scores(typename Simd::scalar const* query, typename Simd::scalar const* key, index_t key_stride,
                      index_t keys, index_t head_dim, index_t lanes, typename Simd::scalar* scores,
                      typename Simd::scalar const* row_max, typename Simd::scalar* block_max,
                      line_stream ahead) noexcept {
  static_assert(Vectors == 1 || Simd::columns_per_lane == 1);
  typename Simd::rows::vector highest[std::size_t{Vectors}];
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) Simd::rows::load(highest[v], row_max + v * Simd::lanes);
  const index_t whole = Rows > Rest ? keys / Rows * Rows : 0;
  if constexpr (Rows > Rest) {
    score_groups<Simd, Rows, Vectors>(query, key, key_stride, 0, whole, head_dim, lanes, scores, highest, ahead);
  }
  if (keys >= Rest) {
    score_groups<Simd, Rest, Vectors>(query, key, key_stride, whole, keys, head_dim, lanes, scores, highest, ahead);
  } else {
    score_groups<Simd, 1, Vectors>(query, key, key_stride, whole, keys, head_dim, lanes, scores, highest, ahead);
  }
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) Simd::rows::store(block_max + v * Simd::lanes, highest[v]);
}

}  // namespace heed::detail
