// A strip: rows of a tile side by side at one key, as rules look at them.
#pragma once

#include "heed/mask/mask.hpp"

namespace heed::detail {

/// Row `query` and those behind it, at one key. A rule answers for the lanes of a strip with what `on(strip)` returns:
/// `allows(lane)` of a mask, `adjust(score, visible, lane)` of a stage. Lanes behind the row `last` repeat it.
template <class Real>
struct strip {
  index_t batch, head, query, last, key, offset;
  Real const* terms = nullptr;  // of the first dense stage: one number for each lane
  index_t term_step = 0;        // to those of the next one

  [[nodiscard]] HEED_FN constexpr position at(int lane) const noexcept {
    return {batch, head, lesser(query + lane, last), key, offset};
  }
};

/// Of a mask that leaves a run of rows visible: lanes [first, end).
struct lane_range {
  int first, end;
  [[nodiscard]] HEED_FN constexpr bool allows(int lane) const noexcept { return (lane >= first) & (lane < end); }
};

/// Of a stage that adds a term, one for each lane: -inf hides, whatever comes later.
template <class Real>
struct added_terms {
  Real const* term;
  HEED_FN constexpr void adjust(Real& score, bool& visible, int lane) const noexcept {
    const Real value = term[lane];
    score += value;
    visible = visible & (value != -static_cast<Real>(__builtin_inff()));
  }
};

/// A row as the number of its lane; far ones become the nearest that no strip has.
[[nodiscard]] HEED_FN constexpr int lane_of(index_t row) noexcept {
  constexpr index_t most = 1 << 20;
  return static_cast<int>(row < -most ? -most : row > most ? most : row);
}

/// Whether a rule's score is not the one it is given plus a term: it then has a slope, which depends on the score.
template <class Rule>
inline constexpr bool bends = requires(Rule const& rule, float score, position const& at) {
  rule.slope(score, at);
};

/// Of a rule that is written for one score at a time.
template <class Rule, class Real>
struct lane_by_lane {
  Rule const& rule;
  strip<Real> rows;

  [[nodiscard]] HEED_FN constexpr bool allows(int lane) const requires(mask_type<Rule>) {
    return rule.allows(rows.at(lane));
  }
  HEED_FN constexpr void adjust(Real& score, bool&, int lane) const requires(stage_type<Rule>) {
    score = rule.adjusted(score, rows.at(lane));
  }
  [[nodiscard]] HEED_FN constexpr Real slope(Real score, int lane) const requires(bends<Rule>) {
    return rule.slope(score, rows.at(lane));
  }
};

/// Dense stages of a rule: each has a tile of terms of its own.
template <class Rule>
inline constexpr int dense_stages = 0;

/// Stages of a rule that add terms which may have a gradient of their own.
template <class Rule>
inline constexpr int differentiable_stages = 0;

template <class Rule, class Real>
[[nodiscard]] HEED_FN constexpr auto on(Rule const& rule, strip<Real> const& rows) {
  if constexpr (requires { rule.on(rows); }) {
    return rule.on(rows);
  } else {
    return lane_by_lane<Rule, Real>{rule, rows};
  }
}

template <class Lanes>
[[nodiscard]] HEED_FN constexpr bool allows(Lanes const& lanes, int lane) {
  if constexpr (requires { lanes.allows(lane); }) {
    return lanes.allows(lane);
  } else {
    return true;
  }
}

template <class Lanes, class Real>
HEED_FN constexpr void adjust(Lanes const& lanes, Real& score, bool& visible, int lane) {
  if constexpr (requires { lanes.adjust(score, visible, lane); }) lanes.adjust(score, visible, lane);
}

/// Whether a mask lets one score through; stages always do.
template <class Rule>
[[nodiscard]] HEED_FN constexpr bool is_allowed(Rule const& rule, position const& at) {
  return allows(on(rule, strip<float>{at.batch, at.head, at.query, at.query, at.key, at.offset}), 0);
}

/// Whether a rule changes scores, and so must look at those that no mask hides.
template <class Rule>
inline constexpr bool adjusts = requires(Rule const& rule, strip<float> rows, float score, bool visible) {
  on(rule, rows).adjust(score, visible, 0);
};

/// Whether a rule has a mask, which is asked about single scores.
template <class Rule>
inline constexpr bool hides = requires(Rule const& rule, strip<float> rows) {
  on(rule, rows).allows(0);
};

}  // namespace heed::detail
