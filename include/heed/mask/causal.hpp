// causal: no row sees a key behind its own position.
#pragma once

#include <climits>

#include "heed/mask/strip.hpp"

namespace heed {

/// Key j is visible to row i iff j <= i + off (`options.anchor` gives off; bottom_right by default).
/// Differences are compared rather than sums, so that no offset overflows.
struct causal {
  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const noexcept {
    return at.key - at.query <= at.offset;
  }
  template <class Real>
  [[nodiscard]] HEED_FN constexpr detail::lane_range on(detail::strip<Real> const& rows) const noexcept {
    return {detail::lane_of(detail::saturating_sub(rows.key - rows.query, rows.offset)), INT_MAX};
  }

  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const noexcept {
    if (area.key_end - 1 - area.query_begin <= area.offset) return cover::full;
    if (area.key_begin - (area.query_end - 1) > area.offset) return cover::none;
    return cover::partial;
  }

  [[nodiscard]] HEED_FN constexpr key_range visible_keys(block const& area) const noexcept {
    const index_t last_row = area.query_end - 1;
    if (area.key_end - 1 - last_row <= area.offset) return {area.key_begin, area.key_end};
    return {area.key_begin, detail::greater(area.key_begin, last_row + area.offset + 1)};
  }
};

}  // namespace heed
