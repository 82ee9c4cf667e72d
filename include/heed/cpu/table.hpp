// From the instruction set in use to its doors.
#pragma once

#include "heed/cpu/doors/v1.hpp"
#if defined(__x86_64__)
#include "heed/cpu/doors/v3.hpp"
#include "heed/cpu/doors/v4.hpp"
#include "heed/cpu/doors/v4_amx.hpp"
#include "heed/cpu/doors/v4_bf16.hpp"
#include "heed/cpu/doors/v4_columns.hpp"
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

/// The same for a call of so few query rows that half of the lanes would be empty, if the columns can fill them.
template <class Real>
[[nodiscard]] verbs<Real> const& verbs_for_rows(verbs<Real> const& verb, index_t rows, bool has_even_columns) noexcept {
#if defined(__x86_64__)
  if constexpr (sizeof(Real) == 4) {
    const bool is_plain = current_isa().level == isa_level::v4 && verb.elements_per_word == 1;
    if (is_plain && has_even_columns && rows <= v4_columns::table<Real>.lanes) return v4_columns::table<Real>;
  }
#endif
  (void)rows;
  (void)has_even_columns;
  return verb;
}

/// The instruction set whose vectors have as many lanes as the tiles of these verbs: that of the rule's verbs.
template <class Real>
[[nodiscard]] isa_level rule_level(verbs<Real> const& verb) noexcept {
  return verb.columns_per_lane > 1 ? isa_level::v3 : current_isa().level;
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

/// What the loops above the verbs ask of a rule of one type.
struct rule_answers {
  cover (*covers)(void const* rule, block const& area);
  key_range (*visible_keys)(void const* rule, block const& area);
  void (*narrow)(void const* rule, index_t batch, sequence& seq);
  index_t (*next_border)(void const* rule, block const& area);
  row_start (*start_of)(void const* rule, index_t head);
  operand const* (*terms)(void const* rule, int number);
  bool has_borders;  // between rows that are treated alike
  bool adjusts;      // looks at scores that no mask hides, too
  int dense_stages;  // each has a term for each score
};

/// The caller's rule with its type forgotten.
struct rule_view {
  void const* rule;
  rule_answers const* of;

  [[nodiscard]] cover covers(block const& area) const { return of->covers(rule, area); }
  [[nodiscard]] key_range visible_keys(block const& area) const { return of->visible_keys(rule, area); }
  void narrow(index_t batch, sequence& seq) const { of->narrow(rule, batch, seq); }
  [[nodiscard]] index_t next_border(block const& area) const { return of->next_border(rule, area); }
  [[nodiscard]] row_start start_of(index_t head) const { return of->start_of(rule, head); }
  [[nodiscard]] operand const& terms(int number) const { return *of->terms(rule, number); }
  [[nodiscard]] bool has_borders() const noexcept { return of->has_borders; }
  [[nodiscard]] bool adjusts() const noexcept { return of->adjusts; }
  [[nodiscard]] int dense_stages() const noexcept { return of->dense_stages; }
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
inline constexpr rule_answers answers_of{
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

template <class Rule>
[[nodiscard]] rule_view view_of(Rule const& rule) noexcept {
  return {&rule, &answers_of<Rule>};
}

}  // namespace HEED_ABI
}  // namespace heed::detail
