// From the instruction set in use to its doors.
#pragma once

#include "heed/cpu/doors/v1.hpp"
#if defined(__x86_64__)
#include "heed/cpu/doors/v3.hpp"
#include "heed/cpu/doors/v4.hpp"
#include "heed/cpu/doors/v4_amx.hpp"
#include "heed/cpu/doors/v4_bf16.hpp"
#endif
#include "heed/cpu/isa.hpp"
#include "heed/mask/combine.hpp"
#include "heed/view/operand.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// The verbs of a call; those of pairs of bfloat16 where the call may use them and the processor is fast at it.
template <class Real, bool MayUseBf16Dot>
[[nodiscard]] verbs<Real> const& verbs_of(bool uses_bf16_dot) noexcept {
  const isa_level level = current_isa().level;
#if defined(__x86_64__)
  if constexpr (MayUseBf16Dot) {
    if (uses_bf16_dot) {
      const bf16_unit unit = current_bf16_unit();
      if (unit == bf16_unit::pairs) return v4_bf16::table<Real>;
      if (unit == bf16_unit::tiles) return v4_amx::table<Real>;
    }
  }
  if (level == isa_level::v4) return v4::table<Real>;
  if (level == isa_level::v3) return v3::table<Real>;
#endif
  (void)level;
  (void)uses_bf16_dot;
  return v1::table<Real>;
}

/// The verbs of calls with few query rows, for K and V of these kinds. Null where the processor's vectors are too short
/// to repay it.
template <class Real, element_kind Key, element_kind Value>
[[nodiscard]] row_verbs<Real> const* row_verbs_of(isa_level level) noexcept {
#if defined(__x86_64__)
  if (level == isa_level::v4) return &v4::row_table<Real, Key, Value>;
  return level == isa_level::v3 ? &v3::row_table<Real, Key, Value> : nullptr;
#else
  (void)level;
  return &v1::row_table<Real, Key, Value>;
#endif
}

/// The verbs that a backward pass needs beside the others, which are verbs_of the same.
template <class Real, bool MayUseBf16Dot>
[[nodiscard]] gradient_verbs<Real> const& gradient_verbs_of(bool uses_bf16_dot) noexcept {
  const isa_level level = current_isa().level;
#if defined(__x86_64__)
  if constexpr (MayUseBf16Dot) {
    if (uses_bf16_dot) {
      const bf16_unit unit = current_bf16_unit();
      if (unit == bf16_unit::pairs) return v4_bf16::gradient_table<Real>;
      if (unit == bf16_unit::tiles) return v4_amx::gradient_table<Real>;
    }
  }
  if (level == isa_level::v4) return v4::gradient_table<Real>;
  if (level == isa_level::v3) return v3::gradient_table<Real>;
#endif
  (void)level;
  (void)uses_bf16_dot;
  return v1::gradient_table<Real>;
}

/// Only a rule with dense stages pays for what packs their terms.
template <class Real, class Rule>
[[nodiscard]] rule_verbs<Real> rule_verbs_of(isa_level level) noexcept {
  rule_verbs<Real> found{v1::apply_rule<Real, Rule>, nullptr};
  if constexpr (dense_stages < Rule >> 0) found.pack_terms = v1::pack_terms<Real>;
#if defined(__x86_64__)
  if (level == isa_level::v4) {
    found.apply = v4::apply_rule<Real, Rule>;
    if constexpr (dense_stages < Rule >> 0) found.pack_terms = v4::pack_terms<Real>;
  } else if (level == isa_level::v3) {
    found.apply = v3::apply_rule<Real, Rule>;
    if constexpr (dense_stages < Rule >> 0) found.pack_terms = v3::pack_terms<Real>;
  }
#endif
  (void)level;
  return found;
}

/// The way back through a rule. Null where it only adds terms and hides, which leaves gradients as they are.
template <class Real, class Rule>
[[nodiscard]] rule_gradient_verb<Real> rule_gradient_of(isa_level level) noexcept {
  (void)level;
  if constexpr (bends<Rule>) {
#if defined(__x86_64__)
    if (level == isa_level::v4) return v4::rule_gradient<Real, Rule>;
    if (level == isa_level::v3) return v3::rule_gradient<Real, Rule>;
#endif
    return v1::rule_gradient<Real, Rule>;
  } else {
    return nullptr;
  }
}

/// The caller's rule with its type forgotten: what the loops above the verbs ask of it.
struct rule_view {
  void const* rule;
  cover (*ask_covers)(void const* rule, block const& area);
  key_range (*ask_visible_keys)(void const* rule, block const& area);
  void (*ask_narrow)(void const* rule, index_t batch, sequence& seq);
  index_t (*ask_next_border)(void const* rule, block const& area);
  row_start (*ask_row_start)(void const* rule, index_t head);
  operand const* (*ask_terms)(void const* rule, int number);
  bool has_borders;  // between rows that are treated alike
  bool adjusts;      // looks at scores that no mask hides, too
  int dense_stages;  // each has a term for each score

  [[nodiscard]] cover covers(block const& area) const { return ask_covers(rule, area); }
  [[nodiscard]] key_range visible_keys(block const& area) const { return ask_visible_keys(rule, area); }
  void narrow(index_t batch, sequence& seq) const { ask_narrow(rule, batch, seq); }
  [[nodiscard]] index_t next_border(block const& area) const { return ask_next_border(rule, area); }
  [[nodiscard]] row_start start_of(index_t head) const { return ask_row_start(rule, head); }
  [[nodiscard]] operand const& terms(int number) const { return *ask_terms(rule, number); }
};

/// The terms of the dense stage of that number, in the order written.
template <class Rule>
[[nodiscard]] operand const* terms_of(Rule const& rule, int number) noexcept {
  operand const* found = nullptr;
  for_each_rule(rule, [&](auto const& one) {
    if constexpr (dense_stages<std::remove_cvref_t<decltype(one)>> == 1) {
      if (number-- == 0) found = &one.terms();
    }
  });
  return found;
}

template <class Rule>
[[nodiscard]] rule_view view_of(Rule const& rule) noexcept {
  return {&rule,
          [](void const* self, block const& area) { return covers(*static_cast<Rule const*>(self), area); },
          [](void const* self, block const& area) { return visible_keys(*static_cast<Rule const*>(self), area); },
          [](void const* self, index_t batch, sequence& seq) { narrow(*static_cast<Rule const*>(self), batch, seq); },
          [](void const* self, block const& area) { return next_border(*static_cast<Rule const*>(self), area); },
          [](void const* self, index_t head) {
            row_start start;
            begin_row(*static_cast<Rule const*>(self), head, start);
            return start;
          },
          [](void const* self, int number) { return terms_of(*static_cast<Rule const*>(self), number); },
          has_borders<Rule>,
          adjusts<Rule>,
          dense_stages<Rule>};
}

}  // namespace HEED_ABI
}  // namespace heed::detail
