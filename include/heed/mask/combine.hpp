// `first & second`: both rules apply.
#pragma once

#include <type_traits>
#include <utility>

#include "heed/mask/strip.hpp"

namespace heed {

/// Two rules joined: a score is visible iff both masks allow it; stages change it one after the other, in the order
/// written, before the masks. `&` nests, so any number may be joined. What one of them throws passes through.
template <rule_type First, rule_type Second>
struct both {
  First first;
  Second second;

  template <class Lanes, class More>
  struct lanes {
    Lanes first;
    More second;

    [[nodiscard]] HEED_FN constexpr bool allows(int lane) const requires(
        requires { first.allows(0); } || requires { second.allows(0); }) {
      const bool one = detail::allows(first, lane), other = detail::allows(second, lane);
      return one & other;  // no branch
    }
    template <class Real>
    HEED_FN constexpr void adjust(Real& score, bool& visible, int lane) const requires(
        requires { first.adjust(score, visible, 0); } || requires { second.adjust(score, visible, 0); }) {
      detail::adjust(first, score, visible, lane);
      detail::adjust(second, score, visible, lane);
    }
  };

  template <class Real>
  [[nodiscard]] HEED_FN constexpr auto on(detail::strip<Real> const& rows) const {
    detail::strip<Real> rest = rows;
    rest.terms += detail::dense_stages<First> * rows.term_step;
    using one = decltype(detail::on(first, rows));
    using other = decltype(detail::on(second, rest));
    return lanes<one, other>{detail::on(first, rows), detail::on(second, rest)};
  }

  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const {
    return detail::is_allowed(first, at) && detail::is_allowed(second, at);
  }

  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const {
    const cover one = detail::covers(first, area);
    if (one == cover::none) return cover::none;
    const cover other = detail::covers(second, area);
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

  [[nodiscard]] HEED_FN constexpr index_t next_border(block const& area) const
      requires(detail::has_borders<First> || detail::has_borders<Second>) {
    return detail::lesser(detail::next_border(first, area), detail::next_border(second, area));
  }

  HEED_FN constexpr void begin_row(index_t head, detail::row_start& start) const {
    detail::begin_row(first, head, start);
    detail::begin_row(second, head, start);
  }
};

/// Rules are held by value: they are views of what they need, and a functor that cannot be copied is moved.
template <class First, class Second>
requires(rule_type<std::remove_cvref_t<First>>&& rule_type<std::remove_cvref_t<Second>>) [[nodiscard]] HEED_FN
    constexpr auto
    operator&(First&& first, Second&& second) {
  return both<std::remove_cvref_t<First>, std::remove_cvref_t<Second>>{std::forward<First>(first),
                                                                       std::forward<Second>(second)};
}

namespace detail {

template <class First, class Second>
inline constexpr int dense_stages<both<First, Second>> = dense_stages<First> + dense_stages<Second>;
template <class First, class Second>
inline constexpr int differentiable_stages<both<First, Second>> =
    differentiable_stages<First> + differentiable_stages<Second>;
template <class First, class Second>
inline constexpr bool bends<both<First, Second>> = bends<First> || bends<Second>;

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
