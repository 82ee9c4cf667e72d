// What a rule's stages make of one score, read from their public data and computed as their definitions say.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "heed/reference/visible.hpp"
#include "heed/score/alibi.hpp"
#include "heed/score/bias.hpp"
#include "heed/score/custom.hpp"
#include "heed/score/relative.hpp"
#include "heed/score/sink.hpp"

namespace heed::reference {
namespace detail {

template <class Rule>
inline constexpr bool is_user_stage = false;
template <class Function, class Derivative>
inline constexpr bool is_user_stage<score_fn<Function, Derivative>> = true;

inline namespace HEED_ABI {

/// One score on its way through the stages.
template <class Accumulate>
struct staged {
  Accumulate score;
  bool is_hidden = false;  // by a term of -inf
};

/// score + term. Narrow is the type that a call accumulates in: beyond 1e6 its sum is rounded, and the judge's with it,
/// so that a term that swallows every score leaves them all alike. A finite term is finite there.
template <class Narrow, class Accumulate>
void add_term(staged<Accumulate>& at, double term) {
  constexpr double most = static_cast<double>((std::numeric_limits<Narrow>::max)());
  if (std::isinf(term) && term < 0) at.is_hidden = true;
  if (std::isfinite(term)) term = std::fmin(std::fmax(term, -most), most);
  if (std::fabs(term) > 1e6) {
    at.score = static_cast<Accumulate>(static_cast<Narrow>(static_cast<Narrow>(at.score) + static_cast<Narrow>(term)));
  } else {
    at.score += static_cast<Accumulate>(static_cast<Narrow>(term));
  }
}

/// The term of a bias, whichever axes it has.
[[nodiscard]] inline double bias_term(bias const& rule, position const& at) {
  heed::detail::operand const& box = rule.terms();
  const index_t indices[4] = {at.batch, at.head, at.query, at.key};
  index_t element = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (box.extents[axis] != 1) element += indices[axis] * box.strides[axis];
  }
  switch (box.kind) {
    case element_kind::float16: return double{static_cast<half const*>(box.data)[element]};
    case element_kind::bfloat16: return double{static_cast<bfloat16 const*>(box.data)[element]};
    case element_kind::float64: return static_cast<double const*>(box.data)[element];
    default: return double{static_cast<float const*>(box.data)[element]};
  }
}

/// How far key j lies ahead of row i; exact wherever a double is.
[[nodiscard]] inline double keys_ahead(position const& at) {
  return static_cast<double>(at.key - at.query) - static_cast<double>(at.offset);
}

/// Buckets are asked one after the other: a distance has the last of them that begins at it or before.
[[nodiscard]] inline index_t relative_bucket(relative_bias const& rule, double ahead) {
  const index_t buckets = rule.table.extent(0);
  const index_t count = rule.bidirectional ? buckets / 2 : buckets;
  const index_t first = rule.bidirectional && ahead > 0 ? count : 0;
  const double distance = rule.bidirectional ? std::fabs(ahead) : std::fmax(-ahead, 0.0);
  const index_t exact = count / 2;
  if (exact == 0) return first;
  index_t bucket = 0;
  for (index_t next = 1; next < count; ++next) {
    const double share = static_cast<double>(next - exact) / static_cast<double>(count - exact);
    const double begin = next <= exact
                             ? static_cast<double>(next)
                             : static_cast<double>(exact) *
                                   std::pow(static_cast<double>(rule.max_distance) / static_cast<double>(exact), share);
    if (distance >= begin * (1 - 1e-9)) bucket = next;
  }
  return first + bucket;
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// Takes one score through the stages of `rule`, in the order written; masks leave it as it is.
template <class Narrow, class Accumulate, class Rule>
void adjust(Rule const& rule, position const& at, detail::staged<Accumulate>& staged) {
  if constexpr (detail::is_joined<Rule>) {
    adjust<Narrow>(rule.first, at, staged);
    adjust<Narrow>(rule.second, at, staged);
  } else if constexpr (std::is_same_v<Rule, bias>) {
    detail::add_term<Narrow>(staged, detail::bias_term(rule, at));
  } else if constexpr (std::is_same_v<Rule, alibi>) {
    const double distance = static_cast<double>(static_cast<Narrow>(std::fabs(detail::keys_ahead(at))));
    const double term = -static_cast<double>(rule.slopes[at.head]) * distance;
    if (std::fabs(term) > 1e6) {
      detail::add_term<Narrow>(staged, term);
    } else {
      staged.score += static_cast<Accumulate>(term);
    }
  } else if constexpr (std::is_same_v<Rule, relative_bias>) {
    const index_t bucket = detail::relative_bucket(rule, detail::keys_ahead(at));
    detail::add_term<Narrow>(
        staged, static_cast<double>(rule.table.data()[bucket * rule.table.stride(0) + at.head * rule.table.stride(1)]));
  } else if constexpr (detail::is_user_stage<Rule>) {
    // What a functor is made for: float or double.
    using given = std::conditional_t<std::is_same_v<Accumulate, float>, float, double>;
    staged.score = static_cast<Accumulate>(rule.function()(static_cast<given>(staged.score), at));
  } else if constexpr (stage_type<Rule> && !std::is_same_v<Rule, sink>) {
    static_assert(!detail::is_unknown<Rule>, "heed::reference: this stage is not one that the reference knows");
  }
}

/// Calls visit(logit) with the logit of each sink of a head.
template <class Rule, class Visitor>
void for_each_sink(Rule const& rule, index_t head, Visitor const& visit) {
  if constexpr (detail::is_joined<Rule>) {
    for_each_sink(rule.first, head, visit);
    for_each_sink(rule.second, head, visit);
  } else if constexpr (std::is_same_v<Rule, sink>) {
    visit(rule.logits[head]);
  }
}

}  // namespace HEED_ABI
}  // namespace heed::reference
