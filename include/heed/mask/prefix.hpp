// prefix: every row sees the first keys, and is causal behind them.
#pragma once

#include <climits>

#include "heed/base/list.hpp"
#include "heed/mask/strip.hpp"

namespace heed {

/// Key j is visible to row i iff j < length or j <= i + off: a prompt that sees all of itself, before a text that is
/// causal ("prefix LM").
///
/// lengths: one index_t per batch item, of the prompt; it must outlive the call. 0 is causal; a number beyond the keys
///   makes all of them visible; a negative one is an error.
/// Joined rules all apply, so `causal{} & prefix{...}` is causal: write prefix alone.
/// Cost: as causal. Source: Raffel et al., "Exploring the Limits of Transfer Learning" (2020), section 3.2.
struct prefix {
  list<index_t> lengths{};

  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const noexcept {
    return at.key < lengths[at.batch] || at.key - at.query <= at.offset;
  }
  template <class Real>
  [[nodiscard]] HEED_FN constexpr detail::lane_range on(detail::strip<Real> const& rows) const noexcept {
    const int first = detail::lane_of(detail::saturating_sub(rows.key - rows.query, rows.offset));
    return {rows.key < lengths[rows.batch] ? INT_MIN : first, INT_MAX};
  }

  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const noexcept {
    const index_t length = lengths[area.batch];
    if (area.key_end <= length || area.key_end - 1 - area.query_begin <= area.offset) return cover::full;
    const bool is_ahead = area.key_begin - (area.query_end - 1) > area.offset;
    return area.key_begin >= length && is_ahead ? cover::none : cover::partial;
  }

  [[nodiscard]] HEED_FN constexpr key_range visible_keys(block const& area) const noexcept {
    const index_t last_row = area.query_end - 1;
    if (area.key_end - 1 - last_row <= area.offset) return {area.key_begin, area.key_end};
    const index_t causal_end = last_row + area.offset + 1;
    const index_t end = detail::lesser(detail::greater(lengths[area.batch], causal_end), area.key_end);
    return {area.key_begin, detail::greater(area.key_begin, end)};
  }
};

}  // namespace heed
