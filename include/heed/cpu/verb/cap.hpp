// cap: the soft cap over the scores of one block.
#pragma once

#include <type_traits>

#include "heed/base/index.hpp"
#include "heed/cpu/simd/vector.hpp"
#include "heed/softmax/math.hpp"

namespace heed::detail {

/// The caller's cap (finite, > 0) as the verb takes it. One beyond the type changes no score of the type: 0, which is
/// off. One below its normal numbers would be 0 to the kernels: the least of them.
template <class Real>
[[nodiscard]] HEED_VERB constexpr Real cap_in(double cap) noexcept {
  const double most = sizeof(Real) == 4 ? double{__FLT_MAX__} : __DBL_MAX__;
  const double least = sizeof(Real) == 4 ? double{__FLT_MIN__} : __DBL_MIN__;
  return cap > most ? Real(0) : static_cast<Real>(cap < least ? least : cap);
}

// What a score becomes: without a cap,
template <class Real>
struct scaled_score {
  Real unit;
  HEED_VERB Real operator()(Real score) const noexcept { return score * unit; }
};
// under a usual one (scores that are smaller by 2^-94 than 1 may become 0),
template <class Real>
struct capped_score {
  Real unit_over_cap, cap;
  HEED_VERB Real operator()(Real score) const noexcept { return cap * heed::tanh(score * unit_over_cap); }
};
// and under one so large or small that score / cap may underflow, or the inverse of the cap. That one is taken of a
// quarter of a large cap; and as long as tanh(x) is x, to half a unit in the last place, the score stays as it is.
template <class Real>
struct extremely_capped_score {
  Real unit, cap;
  Real part = cap > Real(1) ? Real(0.25) : Real(1);
  Real inverse = Real(1) / (cap * part);
  Real straight = cap * (std::is_same_v<Real, float> ? Real(0x1p-12) : Real(0x1p-27));
  HEED_VERB Real operator()(Real score) const noexcept {
    const Real plain = score * unit;
    return heed::select(heed::abs(plain) < straight, plain, cap * heed::tanh(plain * part * inverse));
  }
};

template <class Simd, class Function>
HEED_VERB void change_scores(typename Simd::scalar* scores, index_t keys, index_t lanes, int vectors,
                             Function const change, typename Simd::scalar const* row_max,
                             typename Simd::scalar* block_max) noexcept {
  using Real = typename Simd::scalar;
  for (int v = 0; v < vectors; ++v) {
    typename Simd::vector highest, row_scores;
    Simd::load(highest, row_max + v * Simd::lanes);
    for (index_t key = 0; key < keys; ++key) {
      Real* const place = scores + key * lanes + v * Simd::lanes;
      Real* __restrict score = place;
      for (int lane = 0; lane < Simd::lanes; ++lane) score[lane] = change(score[lane]);
      Simd::load(row_scores, place);
      Simd::larger(highest, row_scores, highest);
    }
    Simd::store(block_max + v * Simd::lanes, highest);
  }
}

/// scores [keys, lanes], `vectors` of them used, become cap * tanh(unit * score / cap), or unit * score where cap is 0;
/// block_max = max(row_max, what they became). A score of -inf becomes -cap.
template <class Simd>
HEED_VERB void cap_scores(typename Simd::scalar* scores, index_t keys, index_t lanes, int vectors,
                          typename Simd::scalar unit, typename Simd::scalar cap, typename Simd::scalar const* row_max,
                          typename Simd::scalar* block_max) noexcept {
  using Real = typename Simd::scalar;
  if (cap == Real(0)) {
    return change_scores<Simd>(scores, keys, lanes, vectors, scaled_score<Real>{unit}, row_max, block_max);
  }
  const Real unit_over_cap = unit * (Real(1) / cap);
  const Real size = heed::abs(unit_over_cap);
  if (cap < Real(0x1p32) && size > Real(0x1p-64) && size < Real(0x1p64)) {
    change_scores<Simd>(scores, keys, lanes, vectors, capped_score<Real>{unit_over_cap, cap}, row_max, block_max);
  } else {
    change_scores<Simd>(scores, keys, lanes, vectors, extremely_capped_score<Real>{unit, cap}, row_max, block_max);
  }
}

/// gradient [keys, lanes], with respect to scores under a cap (not 0), becomes that with respect to the scores before
/// it: times 1 - (capped / cap)^2. Where it is 0 it stays so.
template <class Simd>
HEED_VERB void cap_gradient(typename Simd::scalar const* capped, typename Simd::scalar* gradient, index_t keys,
                            index_t lanes, int vectors, typename Simd::scalar cap) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  // As above: neither a large cap nor its inverse may underflow.
  const Real part = cap > Real(1) ? Real(0.25) : Real(1);
  const Real inverse = Real(1) / (cap * part);
  for (index_t key = 0; key < keys; ++key) {
    for (int v = 0; v < vectors; ++v) {
      const index_t place = key * lanes + v * Simd::lanes;
      vector score, slope;
      Simd::load(score, capped + place);
      Simd::load(slope, gradient + place);
      score = score * part * inverse;
      slope = slope == vector{} ? vector{} : slope * (Real(1) - score * score);
      Simd::store(gradient + place, slope);
    }
  }
}

}  // namespace heed::detail
