// cap: the soft cap over the scores of one block.
#pragma once

#include <limits>
#include <type_traits>

#include "heed/base/index.hpp"
#include "heed/cpu/simd/vector.hpp"
#include "heed/softmax/math.hpp"

namespace heed::detail {

/// The caller's cap (finite, > 0) as the verb takes it. One beyond the type changes no score of the type: 0, which is
/// off. One below its normal numbers would be 0 to the kernels: the least of them.
template <class Real>
[[nodiscard]] constexpr Real cap_in(double cap) noexcept {
  if (cap > double{(std::numeric_limits<Real>::max)()}) return Real(0);
  if (cap < double{(std::numeric_limits<Real>::min)()}) return (std::numeric_limits<Real>::min)();
  return static_cast<Real>(cap);
}

/// scores [keys, lanes], `vectors` of them used, become cap * tanh(unit * score / cap), or unit * score where cap is 0;
/// block_max = max(row_max, what they became). A score of -inf becomes -cap.
template <class Simd>
HEED_VERB void cap_scores(typename Simd::scalar* scores, index_t keys, index_t lanes, int vectors,
                          typename Simd::scalar unit, typename Simd::scalar cap, typename Simd::scalar const* row_max,
                          typename Simd::scalar* block_max) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  // In quarters, so that the inverse of the largest cap is still a normal number.
  const Real part = cap > Real(1) ? Real(0.25) : Real(1);
  const Real inverse = cap == Real(0) ? Real(0) : Real(1) / (cap * part);
  // Up to here tanh(x) is x, to half a unit in the last place, where score / cap may underflow.
  const Real straight = cap * (std::is_same_v<Real, float> ? Real(0x1p-12) : Real(0x1p-27));
  for (int v = 0; v < vectors; ++v) {
    vector highest;
    Simd::load(highest, row_max + v * Simd::lanes);
    for (index_t key = 0; key < keys; ++key) {
      Real* const place = scores + key * lanes + v * Simd::lanes;
      Real* __restrict score = place;
      if (cap != Real(0)) {
        for (int lane = 0; lane < Simd::lanes; ++lane) {
          const Real plain = score[lane] * unit;
          const Real bent = cap * heed::tanh(plain * part * inverse);
          score[lane] = heed::select(heed::abs(plain) < straight, plain, bent);
        }
      } else {
        for (int lane = 0; lane < Simd::lanes; ++lane) score[lane] *= unit;
      }
      vector row_scores;
      Simd::load(row_scores, place);
      Simd::larger(highest, row_scores, highest);
    }
    Simd::store(block_max + v * Simd::lanes, highest);
  }
}

}  // namespace heed::detail
