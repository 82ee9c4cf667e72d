// From the instruction set in use to its doors.
#pragma once

#include "heed/cpu/doors/v1.hpp"
#if defined(__x86_64__)
#include "heed/cpu/doors/v3.hpp"
#include "heed/cpu/doors/v4.hpp"
#include "heed/cpu/doors/v4_bf16.hpp"
#endif
#include "heed/cpu/isa.hpp"
#include "heed/mask/combine.hpp"
#include "heed/view/options.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// The verbs of a call. `Bf16`: query, key and value all hold bfloat16, so that the bf16 dot product may be used where
/// it is fast. Such scores are not scaled before the softmax, so that a huge scale would not fit its exponents.
template <class Real, bool Bf16>
[[nodiscard]] verbs<Real> const& verbs_of(attention_options const& options) noexcept {
  const isa_level level = current_isa().level;
#if defined(__x86_64__)
  if constexpr (Bf16) {
    const bool fits = !options.scale.has_value() || __builtin_fabs(*options.scale) < 1e37;
    if (current_isa().fast_bf16_dot && !options.precise && fits) return v4_bf16::table<Real>;
  }
  if (level == isa_level::v4) return v4::table<Real>;
  if (level == isa_level::v3) return v3::table<Real>;
#endif
  (void)level;
  (void)options;
  return v1::table<Real>;
}

template <class Real, class Rule>
[[nodiscard]] rule_verb<Real> rule_verb_of(isa_level level) noexcept {
#if defined(__x86_64__)
  if (level == isa_level::v4) return v4::apply_rule<Real, Rule>;
  if (level == isa_level::v3) return v3::apply_rule<Real, Rule>;
#endif
  (void)level;
  return v1::apply_rule<Real, Rule>;
}

/// The caller's rule with its type forgotten: what the loops above the verbs ask of it.
struct rule_view {
  void const* rule;
  cover (*covers)(void const* rule, block const& area);
  key_range (*visible_keys)(void const* rule, block const& area);
  void (*narrow)(void const* rule, index_t batch, sequence& seq);
};

template <class Rule>
[[nodiscard]] rule_view view_of(Rule const& rule) noexcept {
  return {&rule, [](void const* self, block const& area) { return static_cast<Rule const*>(self)->covers(area); },
          [](void const* self, block const& area) { return visible_keys(*static_cast<Rule const*>(self), area); },
          [](void const* self, index_t batch, sequence& seq) { narrow(*static_cast<Rule const*>(self), batch, seq); }};
}

}  // namespace HEED_ABI
}  // namespace heed::detail
