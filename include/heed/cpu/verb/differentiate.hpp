// differentiate: from scores and the gradients of probabilities to probabilities and the gradients of scores.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/exp2.hpp"
#include "heed/cpu/simd/lane_sums.hpp"
#include "heed/cpu/verb/softmax.hpp"

namespace heed::detail {

// A product is rounded before it is used: lse was made of such ones, and huge scores differ from it by nothing only if
// they are, too. GCC would fuse it with the difference; Clang, between statements, does not.
template <class Simd>
HEED_VERB void round_here([[maybe_unused]] typename Simd::vector& product) noexcept {
#if !defined(__clang__)
#if defined(__x86_64__)
  asm("" : "+v"(product));
#else
  asm("" : "+w"(product));
#endif
#endif
}

// `Dropped`: `keep` has the factor of each probability.
template <class Simd, bool Dropped>
HEED_VERB void differentiate_lines(typename Simd::scalar* scores, typename Simd::scalar* gradient,
                                   typename Simd::scalar const* keep, index_t lanes, int vectors, index_t keys,
                                   typename Simd::scalar unit, typename Simd::scalar const* lse,
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
      vector scaled = score * unit;
      round_here<Simd>(scaled);
      const vector exponent = (scaled - base) * log2_e<Real>;
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

/// scores [keys, lanes], `vectors` of them, become probabilities e^(score * unit - lse), after dropout; gradient, with
/// respect to probabilities after dropout, becomes that with respect to scores: P (dP - delta), 0 where a score is
/// -inf. `keep` is null without dropout.
template <class Simd>
HEED_VERB void differentiate(typename Simd::scalar* scores, typename Simd::scalar* gradient,
                             typename Simd::scalar const* keep, index_t lanes, int vectors, index_t keys,
                             typename Simd::scalar unit, typename Simd::scalar const* lse,
                             typename Simd::scalar const* delta) noexcept {
  if (keep == nullptr) {
    differentiate_lines<Simd, false>(scores, gradient, keep, lanes, vectors, keys, unit, lse, delta);
  } else {
    differentiate_lines<Simd, true>(scores, gradient, keep, lanes, vectors, keys, unit, lse, delta);
  }
}

/// out [rows in whole vectors] = products of rows [rows, stride] with rows, in whole vectors; 0 times anything is 0.
/// Lanes without a row repeat the last one.
template <class Simd>
HEED_VERB void row_dots(typename Simd::scalar const* one, typename Simd::scalar const* other, index_t rows,
                        index_t stride, typename Simd::scalar* out) noexcept {
  using vector = typename Simd::vector;
  for (index_t first = 0; first < rows; first += Simd::lanes) {
    vector sum[std::size_t{Simd::lanes}], total;
    for (int lane = 0; lane < Simd::lanes; ++lane) {
      const index_t row = lesser(first + lane, rows - 1) * stride;
      vector products{};
      for (index_t column = 0; column < stride; column += Simd::lanes) {
        vector left, right;
        Simd::load(left, one + row + column);
        Simd::load(right, other + row + column);
        left = right == vector{} ? right : left;
        Simd::multiply_add(products, left, right);
      }
      sum[lane] = products;
    }
    lane_sums<Simd, 1>(total, sum);
    Simd::store(out + first, total);
  }
}

}  // namespace heed::detail
