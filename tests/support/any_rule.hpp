// A rule whose type is forgotten, for the loops of the reference: they ask it through pointers, and are compiled once
// for all rules. What answers is the reference's own reading of the rule.
#pragma once

#include "heed/reference/adjusted.hpp"
#include "support/elements.hpp"

namespace heed::test {

/// Refers to a rule that must outlive it. Accumulate is what the call accumulates in.
template <class Accumulate>
class any_rule {
 public:
  static constexpr bool is_stage = true;  // may stand where a rule may
  template <class Real>
  using adjustment = void (*)(void const* rule, position const& at, reference::detail::staged<Real>& staged);

  template <rule_type Rule>
  any_rule(Rule const& rule)  // so that a rule may be given where one of these is asked for
      : rule_(&rule),
        apply_lengths_([](void const* self, index_t batch, reference::limits& found) {
          reference::apply_lengths(*static_cast<Rule const*>(self), batch, found);
        }),
        is_visible_([](void const* self, position const& at, reference::limits const& sizes) {
          return reference::is_visible(*static_cast<Rule const*>(self), at, sizes);
        }),
        own_(adjusted<Accumulate, Rule>),
        wide_(adjusted<judge_of<Accumulate>, Rule>),
        for_each_sink_([](void const* self, index_t head, void* visitor, void (*visit)(void* visitor, float logit)) {
          reference::for_each_sink(*static_cast<Rule const*>(self), head, [&](float logit) { visit(visitor, logit); });
        }) {}

  void apply_lengths(index_t batch, reference::limits& found) const { apply_lengths_(rule_, batch, found); }
  [[nodiscard]] bool is_visible(position const& at, reference::limits const& sizes) const {
    return is_visible_(rule_, at, sizes);
  }
  void adjust(position const& at, reference::detail::staged<Accumulate>& staged) const { own_(rule_, at, staged); }
  void adjust(position const& at, reference::detail::staged<judge_of<Accumulate>>& staged) const {
    wide_(rule_, at, staged);
  }
  template <class Visitor>
  void for_each_sink(index_t head, Visitor const& visit) const {
    Visitor const* visitor = &visit;
    for_each_sink_(rule_, head, &visitor,
                   [](void* given, float logit) { (**static_cast<Visitor const**>(given))(logit); });
  }

 private:
  template <class Real, class Rule>
  static void adjusted(void const* self, position const& at, reference::detail::staged<Real>& staged) {
    reference::adjust<Accumulate>(*static_cast<Rule const*>(self), at, staged);
  }

  void const* rule_;
  void (*apply_lengths_)(void const* rule, index_t batch, reference::limits& found);
  bool (*is_visible_)(void const* rule, position const& at, reference::limits const& sizes);
  adjustment<Accumulate> own_;
  adjustment<judge_of<Accumulate>> wide_;
  void (*for_each_sink_)(void const* rule, index_t head, void* visitor, void (*visit)(void* visitor, float logit));
};

// What the reference calls by these names, where the rule is one of these.
template <class Accumulate>
void apply_lengths(any_rule<Accumulate> const& rule, index_t batch, reference::limits& found) {
  rule.apply_lengths(batch, found);
}
template <class Accumulate>
[[nodiscard]] bool is_visible(any_rule<Accumulate> const& rule, position const& at, reference::limits const& sizes) {
  return rule.is_visible(at, sizes);
}
template <class Narrow, class Real, class Accumulate>
void adjust(any_rule<Accumulate> const& rule, position const& at, reference::detail::staged<Real>& staged) {
  static_assert(std::is_same_v<Narrow, Accumulate>);
  rule.adjust(at, staged);
}
template <class Accumulate, class Visitor>
void for_each_sink(any_rule<Accumulate> const& rule, index_t head, Visitor const& visit) {
  rule.for_each_sink(head, visit);
}

}  // namespace heed::test
