// `first & second`: both masks apply.
#pragma once

#include "heed/mask/mask.hpp"

namespace heed {

/// Two rules joined: a score is visible iff both allow it. `&` nests, so any number may be joined. What one of them
/// throws passes through.
template <rule_type First, rule_type Second>
struct both {
  First first;
  Second second;

  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const {
    return first.allows(at) && second.allows(at);
  }

  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const {
    const cover one = first.covers(area);
    if (one == cover::none) return cover::none;
    const cover other = second.covers(area);
    return one == cover::full || other == cover::none ? other : cover::partial;
  }

  [[nodiscard]] HEED_FN constexpr key_range visible_keys(block const& area) const {
    block narrowed = area;
    const key_range range = detail::visible_keys(first, area);
    narrowed.key_begin = range.begin;
    narrowed.key_end = detail::greater(range.begin, range.end);
    return detail::visible_keys(second, narrowed);
  }

  HEED_FN constexpr void narrow(index_t batch, sequence& seq) const {
    detail::narrow(first, batch, seq);
    detail::narrow(second, batch, seq);
  }
};

template <rule_type First, rule_type Second>
[[nodiscard]] HEED_FN constexpr both<First, Second> operator&(First const& first, Second const& second) noexcept {
  return {first, second};
}

namespace detail {

/// Calls `visit` with every rule that `&` has joined, in the order written.
template <class Rule, class Visitor>
HEED_FN constexpr void for_each_rule(Rule const& rule, Visitor const& visit) {
  visit(rule);
}
template <class First, class Second, class Visitor>
HEED_FN constexpr void for_each_rule(both<First, Second> const& joined, Visitor const& visit) {
  for_each_rule(joined.first, visit);
  for_each_rule(joined.second, visit);
}

}  // namespace detail
}  // namespace heed
