// window: a row sees the keys around its own position.
#pragma once

#include <optional>

#include "heed/mask/strip.hpp"

namespace heed {

/// Key j is visible to row i iff i + off - left <= j <= i + off + right (`options.anchor` gives off; bottom_right by
/// default).
///
/// left, right: keys before and behind the row's own position, which itself is not counted; absent = unbounded,
/// negative
///   = error. Windows of other systems: a total of n keys to the left, the own one included, is left = n - 1.
/// Offsets and bounds may be any number: what 64 bits do not hold is as good as unbounded.
/// Empty: a row whose window lies wholly outside of the keys gives 0 (lse -inf).
/// Cost: blocks outside of the window are never read; see bench/README.md.
/// Source: Beltagy, Peters, Cohan, "Longformer" (2020). Example: `causal{} & window{.left = 255}`.
struct window {
  std::optional<index_t> left{};
  std::optional<index_t> right{};

  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const noexcept {
    const index_t ahead = at.key - at.query;
    return ahead >= least(at.offset) && ahead <= most(at.offset);
  }
  template <class Real>
  [[nodiscard]] HEED_FN constexpr detail::lane_range on(detail::strip<Real> const& rows) const noexcept {
    const index_t ahead = rows.key - rows.query;
    return {detail::lane_of(detail::saturating_sub(ahead, most(rows.offset))),
            detail::lane_of(detail::clamped_add(detail::saturating_sub(ahead, least(rows.offset)), 1))};
  }

  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const noexcept {
    const index_t first = area.key_begin - (area.query_end - 1), last = area.key_end - 1 - area.query_begin;
    if (last < least(area.offset) || first > most(area.offset)) return cover::none;
    return first >= least(area.offset) && last <= most(area.offset) ? cover::full : cover::partial;
  }

  [[nodiscard]] HEED_FN constexpr key_range visible_keys(block const& area) const noexcept {
    const index_t begin = detail::clamped_add(area.query_begin, least(area.offset));
    const index_t last = detail::clamped_add(area.query_end - 1, most(area.offset));
    const index_t from = detail::lesser(detail::greater(area.key_begin, begin), area.key_end);
    return {from, last >= area.key_end - 1 ? area.key_end : detail::greater(from, last + 1)};
  }

 private:
  // Bounds of key - query.
  [[nodiscard]] HEED_FN constexpr index_t least(index_t offset) const noexcept {
    return left.has_value() ? detail::saturating_sub(offset, *left) : INT64_MIN;
  }
  [[nodiscard]] HEED_FN constexpr index_t most(index_t offset) const noexcept {
    return right.has_value() ? detail::clamped_add(offset, *right) : INT64_MAX;
  }
};

}  // namespace heed
