// A rule that is on or off, told at run time: one type of rules stands for every subset of its components.
#pragma once

#include "heed/heed.hpp"

namespace heed::test {

template <class Rule>
struct optional_rule {
  Rule rule;
  bool is_on = true;

  static constexpr bool is_stage = stage_type<Rule>;
  static constexpr bool needs_call = unresolved_mask<Rule>;

  template <class Lanes>
  struct lanes {
    Lanes inner;
    bool is_on;

    [[nodiscard]] HEED_FN constexpr bool allows(int lane) const requires(requires { inner.allows(0); }) {
      const bool visible = inner.allows(lane);
      return !is_on | visible;
    }
    template <class Real>
    HEED_FN constexpr void adjust(Real& score, bool& visible, int lane) const
        requires(requires { inner.adjust(score, visible, 0); }) {
      Real changed = score;
      bool still_visible = visible;
      inner.adjust(changed, still_visible, lane);
      score = is_on ? changed : score;
      visible = is_on ? still_visible : visible;
    }
  };
  template <class Real>
  [[nodiscard]] HEED_FN constexpr auto on(detail::strip<Real> const& rows) const
      requires(mask_type<Rule> || stage_type<Rule>) {
    return lanes<decltype(detail::on(rule, rows))>{detail::on(rule, rows), is_on};
  }
  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const requires(mask_type<Rule>) {
    return !is_on || rule.allows(at);
  }
  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const requires(mask_type<Rule>) {
    return is_on ? detail::covers(rule, area) : cover::full;
  }
  [[nodiscard]] HEED_FN constexpr key_range visible_keys(block const& area) const {
    return is_on ? detail::visible_keys(rule, area) : key_range{area.key_begin, area.key_end};
  }
  HEED_FN constexpr void narrow(index_t batch, sequence& seq) const {
    if (is_on) detail::narrow(rule, batch, seq);
  }
  [[nodiscard]] HEED_FN constexpr index_t next_border(block const& area) const requires(detail::has_borders<Rule>) {
    return is_on ? detail::next_border(rule, area) : area.query_end;
  }
  HEED_FN constexpr void begin_row(index_t head, detail::row_start& start) const {
    if (is_on) detail::begin_row(rule, head, start);
  }
  [[nodiscard]] HEED_FN detail::operand const& terms() const noexcept requires(detail::dense_stages<Rule> == 1) {
    return rule.terms();
  }
};

/// What is off is checked as well: the kernels may read it.
template <class Rule>
[[nodiscard]] bool check_rule(optional_rule<Rule> const& optional, detail::problem const& call,
                              detail::report& broken) {
  return check_rule(optional.rule, call, broken);
}

}  // namespace heed::test

namespace heed::detail {

template <class Rule>
inline constexpr int dense_stages<test::optional_rule<Rule>> = dense_stages<Rule>;

inline namespace HEED_ABI {
template <class Rule>
struct preparation<test::optional_rule<Rule>> {
  using inner = preparation<Rule>;
  using type = test::optional_rule<typename inner::type>;
  static constexpr bool needs_room = inner::needs_room;
  [[nodiscard]] static index_t words(test::optional_rule<Rule> const& optional, problem const& call) {
    return inner::words(optional.rule, call);
  }
  [[nodiscard]] static type prepared(test::optional_rule<Rule> const& optional, problem const& call,
                                     std::uint32_t* memory) {
    return {inner::prepared(optional.rule, call, memory), optional.is_on};
  }
};
}  // namespace HEED_ABI

}  // namespace heed::detail
