// softmax: scores become probabilities under the running maximum; and the second look, when the maximum is final.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/exp2.hpp"

namespace heed::detail {

template <class Real>
inline constexpr Real log2_e = Real(1.4426950408889634074);

// A row that has seen nothing has the maximum -inf; 0 in its place keeps -inf - (-inf) out of the exponent.
template <class Simd>
HEED_VERB void finite_base(typename Simd::vector& to, typename Simd::vector const& maximum) noexcept {
  using Real = typename Simd::scalar;
  const typename Simd::vector zero{};
  to = maximum == zero - infinity<Real> ? zero : maximum;
}

/// scores [keys, lanes] -> exp(scores - block_max), in place; row_sum = row_sum * rescale + their sums; row_max =
/// block_max; rescale [lanes] is what the accumulated output must be multiplied with.
template <class Simd, int Vectors>
HEED_VERB void softmax(typename Simd::scalar* scores, index_t keys, typename Simd::scalar const* block_max,
                       typename Simd::scalar* row_max, typename Simd::scalar* row_sum,
                       typename Simd::scalar* rescale) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  constexpr int lanes = Vectors * Simd::lanes;
  vector base[std::size_t{Vectors}], sum[std::size_t{Vectors}];
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    vector highest;
    Simd::load(highest, block_max + v * Simd::lanes);
    finite_base<Simd>(base[v], highest);
    sum[v] = vector{};
  }
  for (index_t key = 0; key < keys; ++key) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      Real* const place = scores + key * lanes + v * Simd::lanes;
      vector score;
      Simd::load(score, place);
      score = (score - base[v]) * log2_e<Real>;
      vector probability;
      exp2<Simd>(probability, score);
      Simd::store(place, probability);
      sum[v] += probability;
    }
  }
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    vector before, total, factor;
    Simd::load(before, row_max + v * Simd::lanes);
    before = (before - base[v]) * log2_e<Real>;
    exp2<Simd>(factor, before);
    Simd::load(total, row_sum + v * Simd::lanes);
    total = total * factor + sum[v];
    Simd::store(row_sum + v * Simd::lanes, total);
    Simd::store(rescale + v * Simd::lanes, factor);
    Simd::load(before, block_max + v * Simd::lanes);
    Simd::store(row_max + v * Simd::lanes, before);
  }
}

/// scores [keys, lanes] -> exp(scores - row_max) * factor, in place; 0 where a score is -inf, even in a row that is
/// NaN.
template <class Simd>
HEED_VERB void probabilities(typename Simd::scalar* scores, index_t keys, int vectors,
                             typename Simd::scalar const* row_max, typename Simd::scalar const* factor) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  const vector minus_infinity = vector{} - infinity<Real>;
  for (int v = 0; v < vectors; ++v) {
    vector base, times;
    Simd::load(base, row_max + v * Simd::lanes);
    finite_base<Simd>(base, base);
    Simd::load(times, factor + v * Simd::lanes);
    for (index_t key = 0; key < keys; ++key) {
      Real* const place = scores + (key * vectors + v) * Simd::lanes;
      vector score, probability;
      Simd::load(score, place);
      vector exponent = (score - base) * log2_e<Real>;
      exp2<Simd>(probability, exponent);
      probability = score == minus_infinity ? vector{} : probability * times;
      Simd::store(place, probability);
    }
  }
}

/// factor [lanes] = 1 / row_sum, 0 for a row that saw nothing. Returns whether the output [head_dim, lanes] is finite.
template <class Simd>
HEED_VERB bool finish(typename Simd::scalar const* out, index_t head_dim, int vectors,
                      typename Simd::scalar const* row_sum, typename Simd::scalar* factor) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  vector poison{};  // 0, or NaN once an infinity or a NaN has been met
  for (int v = 0; v < vectors; ++v) {
    vector total;
    Simd::load(total, row_sum + v * Simd::lanes);
    const vector inverse = total == vector{} ? total : Real(1) / total;
    Simd::store(factor + v * Simd::lanes, inverse);
    for (index_t dim = 0; dim < head_dim; ++dim) {
      vector value;
      Simd::load(value, out + (dim * vectors + v) * Simd::lanes);
      poison += value * Real(0);
    }
  }
  bool finite = true;
  for (int lane = 0; lane < Simd::lanes; ++lane) finite &= poison[lane] == Real(0);
  return finite;
}

}  // namespace heed::detail
