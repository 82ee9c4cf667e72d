// alibi: a penalty on distance, with one slope for each query head.
#pragma once

#include "heed/base/list.hpp"
#include "heed/mask/strip.hpp"

namespace heed {

/// score - slope * |i + off - j|. Slopes: one float per query head, [num_heads]; see alibi_slopes. Distances are exact
/// up to 2^24 in float, 2^53 in double. Cost: some 2 % of a call. Source: Press, Smith, Lewis, "Train Short, Test
/// Long" (2022).
struct alibi {
  list<float> slopes{};

  static constexpr bool is_stage = true;

  template <class Real>
  struct lanes {
    Real slope, distance;  // of lane 0
    HEED_FN constexpr void adjust(Real& score, bool&, int lane) const noexcept {
      const Real away = distance + static_cast<Real>(lane);
      score -= slope * (sizeof(Real) == 4 ? static_cast<Real>(__builtin_fabsf(static_cast<float>(away)))
                                          : static_cast<Real>(__builtin_fabs(static_cast<double>(away))));
    }
  };
  template <class Real>
  [[nodiscard]] HEED_FN constexpr lanes<Real> on(detail::strip<Real> const& rows) const noexcept {
    return {static_cast<Real>(slopes[rows.head]),
            static_cast<Real>(detail::clamped_add(rows.query - rows.key, rows.offset))};
  }
};

}  // namespace heed
