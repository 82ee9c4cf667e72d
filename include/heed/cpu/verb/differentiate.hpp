// differentiate: from scores and the gradients of probabilities to probabilities and the gradients of scores.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/exp2.hpp"
#include "heed/cpu/verb/softmax.hpp"

namespace heed::detail {

// `Dropped`: `keep` has the factor of each probability.
template <class Simd, bool Dropped>
HEED_VERB void differentiate_lines(typename Simd::scalar* scores, typename Simd::scalar* gradient,
                                   typename Simd::scalar const* keep, index_t lanes, int vectors, index_t keys,
                                   typename Simd::scalar to_exponent, typename Simd::scalar const* lse,
                                   typename Simd::scalar const* delta) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  const vector minus_infinity = vector{} - infinity<Real>;
  for (int v = 0; v < vectors; ++v) {
    vector base, mean;
    Simd::load(base, lse + v * Simd::lanes);
    finite_base<Simd>(base, base);
    Simd::load(mean, delta + v * Simd::lanes);
    for (index_t key = 0; key < keys; ++key) {
      const index_t place = key * lanes + v * Simd::lanes;
      vector score, slope, probability;
      Simd::load(score, scores + place);
      Simd::load(slope, gradient + place);
      const vector exponent = (score - base) * to_exponent;
      exp2<Simd>(probability, exponent);
      probability = score == minus_infinity ? vector{} : probability;
      vector passed = probability;
      if constexpr (Dropped) {
        vector factor;
        Simd::load(factor, keep + place);
        slope = factor == vector{} ? vector{} : slope * factor;
        passed *= factor;
      }
      slope = probability * (slope - mean);
      slope = score == minus_infinity ? vector{} : slope;
      Simd::store(scores + place, passed);
      Simd::store(gradient + place, slope);
    }
  }
}

/// scores [keys, lanes], `vectors` of them, become probabilities e^(score - lse), after dropout; gradient, with respect
/// to probabilities after dropout, becomes that with respect to scores: P (dP - delta), 0 where a score is -inf.
/// `keep` is null without dropout.
template <class Simd>
HEED_VERB void differentiate(typename Simd::scalar* scores, typename Simd::scalar* gradient,
                             typename Simd::scalar const* keep, index_t lanes, int vectors, index_t keys,
                             typename Simd::scalar to_exponent, typename Simd::scalar const* lse,
                             typename Simd::scalar const* delta) noexcept {
  if (keep == nullptr) {
    differentiate_lines<Simd, false>(scores, gradient, keep, lanes, vectors, keys, to_exponent, lse, delta);
  } else {
    differentiate_lines<Simd, true>(scores, gradient, keep, lanes, vectors, keys, to_exponent, lse, delta);
  }
}

/// out [lanes] = the sums over columns of products of two tiles [columns, lanes]; 0 times anything is 0.
template <class Simd>
HEED_VERB void column_dots(typename Simd::scalar const* one, typename Simd::scalar const* other, index_t columns,
                           int vectors, typename Simd::scalar* out) noexcept {
  for (int v = 0; v < vectors; ++v) {
    typename Simd::vector sum{}, first, second;
    for (index_t column = 0; column < columns; ++column) {
      const index_t place = (column * vectors + v) * Simd::lanes;
      Simd::load(first, one + place);
      Simd::load(second, other + place);
      first = second == typename Simd::vector{} ? second : first;
      Simd::multiply_add(sum, first, second);
    }
    Simd::store(out + v * Simd::lanes, sum);
  }
}

}  // namespace heed::detail
