// alibi: a penalty on distance, with one slope for each query head.
#pragma once

#include <vector>

#include "heed/base/error.hpp"
#include "heed/base/list.hpp"
#include "heed/mask/strip.hpp"

namespace heed {

/// score - slope * |i + off - j|, for attention with linear biases.
///
/// Shapes: slopes [num_heads], floats, one for each query head (alibi_slopes has those of the paper); a call on some of
///   the heads is given theirs. They must outlive the call; any other count is errc::slopes_wrong_count.
/// Units: distances are exact up to 2^24 in float, 2^53 in double.
/// Cost: at most 8 % of a call.
/// Source: Press, Smith, Lewis, "Train Short, Test Long" (2022).
/// Example: `attention(q, k, v, out, causal{} & alibi{.slopes = slopes})`
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

namespace detail {
template <>
inline constexpr int differentiable_stages<alibi> = 1;
}  // namespace detail

inline namespace HEED_ABI {

/// The slopes of the paper: 2^(-8 h / n), h = 1 to n, for n heads that are a power of two; otherwise those of the power
/// of two below, followed by every other one of the power of two above. Throws errc::negative_extent below 0.
[[nodiscard]] inline std::vector<float> alibi_slopes(index_t num_heads) {
  if (num_heads < 0) {
    detail::raise(errc::negative_extent, "heed::alibi_slopes: num_heads is negative; it must be 0 or more");
  }
  index_t whole = 1;  // the largest power of two that there are heads for
  while (whole <= num_heads / 2) whole *= 2;
  std::vector<float> slopes;
  slopes.reserve(static_cast<std::size_t>(num_heads));
  for (index_t head = 0; head < num_heads; ++head) {
    const double step = head < whole ? -8.0 / static_cast<double>(whole) : -4.0 / static_cast<double>(whole);
    const index_t power = head < whole ? head + 1 : 2 * (head - whole) + 1;
    slopes.push_back(static_cast<float>(__builtin_exp2(step * static_cast<double>(power))));
  }
  return slopes;
}

}  // namespace HEED_ABI
}  // namespace heed
