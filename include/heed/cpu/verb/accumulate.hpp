// accumulate: O^T = O^T * rescale + V^T P^T for one block of keys and one tile of queries.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

// `Rows` value dimensions at once, all accumulators in registers; each output is one chain over the keys.
template <class Simd, int Rows, int Vectors>
HEED_VERB void accumulate_rows(typename Simd::scalar const* probabilities,  // [keys, lanes]
                               typename Simd::scalar const* value,          // [keys, value_stride]
                               index_t value_stride, index_t keys,
                               typename Simd::scalar* out,  // [Rows, lanes]
                               typename Simd::scalar const* rescale) noexcept {
  using vector = typename Simd::vector;
  constexpr int lanes = Vectors * Simd::lanes;
  vector sum[std::size_t{Rows}][std::size_t{Vectors}];
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    vector factor;
    Simd::load(factor, rescale + v * Simd::lanes);
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      Simd::load(sum[row][v], out + row * lanes + v * Simd::lanes);
      sum[row][v] *= factor;
    }
  }
  HEED_UNROLL_4
  for (index_t key = 0; key < keys; ++key) {
    vector at[std::size_t{Vectors}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::load(at[v], probabilities + key * lanes + v * Simd::lanes);
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      vector factor;
      Simd::splat(factor, value + key * value_stride + row);
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[row][v] += factor * at[v];
    }
  }
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) Simd::store(out + row * lanes + v * Simd::lanes, sum[row][v]);
  }
}

/// out [head_dim, lanes]; head_dim may be any number: what is left over by tiles of Rows is done in narrower ones.
template <class Simd, int Rows, int Vectors>
HEED_VERB void accumulate(typename Simd::scalar const* probabilities, typename Simd::scalar const* value,
                          index_t value_stride, index_t keys, index_t head_dim, typename Simd::scalar* out,
                          typename Simd::scalar const* rescale) noexcept {
  constexpr int lanes = Vectors * Simd::lanes;
  index_t dim = 0;
  for (; dim + Rows <= head_dim; dim += Rows) {
    accumulate_rows<Simd, Rows, Vectors>(probabilities, value + dim, value_stride, keys, out + dim * lanes, rescale);
  }
  if constexpr (Rows > 4) {
    if (dim + 4 <= head_dim) {
      accumulate_rows<Simd, 4, Vectors>(probabilities, value + dim, value_stride, keys, out + dim * lanes, rescale);
      dim += 4;
    }
  }
  for (; dim < head_dim; ++dim) {
    accumulate_rows<Simd, 1, Vectors>(probabilities, value + dim, value_stride, keys, out + dim * lanes, rescale);
  }
}

/// accumulate, leaving out the keys that a row may not see (score -inf): there 0 * NaN would be NaN. Only tiles with an
/// infinity or a NaN in sight come here; the others would get the same bits.
template <class Simd>
HEED_VERB void accumulate_visible(typename Simd::scalar const* probabilities,  // [keys, lanes]
                                  typename Simd::scalar const* scores,         // [keys, lanes], before softmax
                                  typename Simd::scalar const* value, index_t value_stride, index_t keys,
                                  index_t head_dim, int vectors, typename Simd::scalar* out,
                                  typename Simd::scalar const* rescale) noexcept {
  using vector = typename Simd::vector;
  const vector hidden = vector{} - infinity<typename Simd::scalar>;
  for (index_t dim = 0; dim < head_dim; ++dim) {
    for (int v = 0; v < vectors; ++v) {
      typename Simd::scalar* const place = out + (dim * vectors + v) * Simd::lanes;
      vector sum, factor;
      Simd::load(sum, place);
      Simd::load(factor, rescale + v * Simd::lanes);
      sum *= factor;
      for (index_t key = 0; key < keys; ++key) {
        vector probability, score;
        Simd::load(probability, probabilities + (key * vectors + v) * Simd::lanes);
        Simd::load(score, scores + (key * vectors + v) * Simd::lanes);
        Simd::splat(factor, value + key * value_stride + dim);
        vector added = sum;
        added += factor * probability;
        sum = score == hidden ? sum : added;
      }
      Simd::store(place, sum);
    }
  }
}

}  // namespace heed::detail
