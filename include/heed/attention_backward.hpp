// attention_backward: the gradients of attention, from what the forward pass wrote.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "heed/attention.hpp"
#include "heed/cpu/backward.hpp"
#include "heed/cpu/explain_backward.hpp"
#include "heed/score/check_gradients.hpp"
#include "heed/score/differentiable.hpp"
#include "heed/view/gradients.hpp"

namespace heed {
namespace detail {

template <class Given>
concept saved_argument = std::is_same_v<std::remove_cvref_t<Given>, saved_result>;
template <class Given>
concept gradients_argument = std::is_same_v<std::remove_cvref_t<Given>, gradient_targets>;

inline namespace HEED_ABI {

/// Says at compile time what the arguments must be, then forgets their types. `environment` is the caller's.
template <class Rule, class Query, class Key, class Value, class OutGradient>
[[nodiscard]] backward_problem backward_inputs_of(Query const& query, Key const& key, Value const& value,
                                                  saved_result const& forward, OutGradient const& d_out,
                                                  gradient_targets const& targets, attention_options const& options,
                                                  fp_environment const& environment) noexcept {
  static_assert(
      tensor_like<OutGradient>,
      "heed::attention_backward: d_out must be a heed::tensor or a heed::tensor_view, the gradient of the loss "
      "with respect to out; wrap other memory in heed::tensor_view (for Eigen: heed::as_view)");
  static_assert(
      holds_floating_elements<OutGradient>(),
      "heed::attention_backward: d_out must hold half, bfloat16, float or double; convert its elements first");
  static_assert(
      differentiable_rule<Rule>,
      "heed::attention_backward: a score_fn of the rule has no derivative; make it a generic lambda of heed's "
      "math functions, [](auto score, heed::position at) { ... }, or give the derivative: "
      "score_fn(f, derivative)");
  problem call = inputs_of(query, key, value, options);
  call.environment = environment.outside();
  operand gradient;
  if constexpr (tensor_like<OutGradient>) gradient = operand_of(view_of_tensor(d_out));
  return backward_problem_of(call, forward, gradient, targets);
}

/// Every rule of a backward pass; the first broken one is reported.
template <class Rule>
[[nodiscard]] bool check_backward(backward_problem& pass, Rule const& rule, report& broken) {
  return check_isa(broken) && read_backward_problem(pass, broken) && check_rule(rule, pass.call, broken) &&
         check_gradients(rule, pass, broken);
}

/// Whether a pass may multiply pairs of bfloat16: d_out is one of its factors.
[[nodiscard]] inline bool allows_bf16_dot(backward_problem const& pass) noexcept {
  return pass.d_out.kind == element_kind::bfloat16 && hides_rounding(pass.dq) && hides_rounding(pass.dk) &&
         hides_rounding(pass.dv) && allows_bf16_dot(pass.call);
}

/// The kernel is called even where there is no query row: dk and dv are zeros then.
template <class Query, class Key, class Value, class Rule>
void run_backward(backward_problem const& pass, Rule const& rule) {
  using Real = accumulate_type<Query>;
  using ready_type = typename prepared_rule<Rule>::type;
  const prepared_rule<Rule> ready(rule, pass.call);
  constexpr bool is_bf16 = are_bf16<Query, Key, Value>;
  const bool uses_bf16_dot = allows_bf16_dot(pass);
  const isa_level level = current_isa().level;
  const kernel<Real> run = kernel_of(pass.call, view_of(ready.rule()), rule_verbs_of<Real, ready_type>(level),
                                     verbs_of<Real, is_bf16>(uses_bf16_dot));
  noted_stages<Rule> noted = note_stages(rule, pass);
  gradient_call<Real> all = gradient_call_of<Real>(run, gradient_verbs_of<Real, is_bf16>(uses_bf16_dot),
                                                   rule_gradient_of<Real, ready_type>(level), pass, noted);
  backward(all);
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// The gradients of attention: from d_out, the gradient of a loss with respect to out, those with respect to query,
/// key, value and what the stages of the rule read. Probabilities are computed anew from lse. `attention(q, k, v,
/// into(out).lse(lse), rule)`, then `attention_backward(q, k, v, saved(out, lse), d_out, gradients(dq, dk, dv), rule)`.
///
/// Shapes: query, key, value, rule and options are those of the forward pass; saved(out, lse) is what it wrote. d_out
///   and out [B, Hq, Sq, Dv], lse [B, Hq, Sq]; dq, dk and dv have the shapes of query, key and value; or all of rank 3,
///   or of rank 2, as in attention. Each gradient is a tensor or a view of its own element type and strides, or nullptr
///   where it is not wanted. `gradients(...)` may go on with .bias(view) in the bias's own shape, .sink(view),
///   .slopes(view), .table(view), each once for each such stage in the order written, and with .lse(d_lse), an input.
///   dk and dv are summed over the query heads of a key-value head, the gradient of a bias over the axes it repeats.
/// Rule: as attention. A score_fn is differentiated where it is a generic lambda, or brings its derivative.
/// Units: as attention; what comes in d_out goes out in all gradients: they are linear in (d_out, d_lse).
/// Empty: an empty row, and one past the lengths, has gradient 0, whatever out, lse and d_out hold there (a sink's
///   gradient takes lse and d_lse of empty rows as the forward pass left them); so does what is hidden, which may hold
///   NaN. Without query rows dk and dv are zeros, without keys dq is. Gradients are
///   overwritten, never added to.
/// Error bound: accumulates in float, in double where query is double: at most three times the error of a plain loop in
///   that type plus 8 eps of the largest |gradient| of the tensor; narrow gradients are rounded once.
///   bfloat16 throughout also rounds factors of products where the bf16 dot product is fast (options.precise). What
///   a half or bfloat16 out lost comes on top: sums over all scores (slopes, tables) were seen some percent off with
///   one.
/// Throws: heed::error before the first write (see errc), with the argument, its value, the rule and the fix;
///   std::bad_alloc. What a rule or options.executor throws comes back from the call; the gradients are then undefined.
/// Cost: 2 B Hq Sq Skv (3 D + 2 Dv) flops over the visible blocks, 2.5 times those of attention where D = Dv; never a
///   score matrix.
/// Threads: as options.threads says, of options.executor where one is given; safe to call from any number of threads;
///   the same bits for any number and any executor, and whichever gradients are asked for.
/// Source: FlashAttention-2 (Dao, 2023), algorithm 2, without its atomic additions.
/// Example: examples/19_gradient_check.cpp
template <class Query, class Key, class Value, class Saved, class OutGradient, class Gradients,
          detail::rule_argument Rule>
void attention_backward(Query const& query, Key const& key, Value const& value, Saved const& forward,
                        OutGradient const& d_out, Gradients const& targets, Rule const& rule,
                        attention_options const& options = {}) {
  static_assert(detail::saved_argument<Saved>,
                "heed::attention_backward: after value comes heed::saved(out, lse), what the forward pass wrote: "
                "attention_backward(query, key, value, saved(out, lse), d_out, gradients(dq, dk, dv))");
  static_assert(detail::gradients_argument<Gradients>,
                "heed::attention_backward: after d_out comes heed::gradients(dq, dk, dv), nullptr for one that is not "
                "wanted: attention_backward(query, key, value, saved(out, lse), d_out, gradients(dq, dk, dv))");
  if constexpr (detail::saved_argument<Saved> && detail::gradients_argument<Gradients>) {
    const detail::fp_environment environment;
    detail::backward_problem pass =
        detail::backward_inputs_of<Rule>(query, key, value, forward, d_out, targets, options, environment);
    detail::require([&](detail::report& broken) { return detail::check_backward(pass, rule, broken); },
                    "heed::attention_backward");
    detail::run_backward<Query, Key, Value>(pass, rule);
  }
}
template <class Query, class Key, class Value, class Saved, class OutGradient, class Gradients>
void attention_backward(Query const& query, Key const& key, Value const& value, Saved const& forward,
                        OutGradient const& d_out, Gradients const& targets, attention_options const& options = {}) {
  attention_backward(query, key, value, forward, d_out, targets, no_mask{}, options);
}
/// Catches what is neither a rule nor options, to say so in one line.
template <class Query, class Key, class Value, class Saved, class OutGradient, class Gradients,
          detail::misplaced_argument Given>
void attention_backward(Query const&, Key const&, Value const&, Saved const&, OutGradient const&, Gradients const&,
                        Given const&, attention_options const& = {}) {
  static_assert(!detail::misplaced_argument<Given>,
                "heed::attention_backward: after gradients(dq, dk, dv) comes the rule of the forward pass, then its "
                "options; more gradients are members: gradients(dq, dk, dv).bias(b).sink(s).slopes(a).table(t).lse(l)");
}

/// The first rule that `attention_backward(the same arguments)` breaks, or errc::ok. Reads lists and lengths, calls no
/// functor, allocates nothing, throws nothing.
template <class Query, class Key, class Value, class OutGradient, detail::rule_argument Rule>
[[nodiscard]] errc validate(Query const& query, Key const& key, Value const& value, saved_result const& forward,
                            OutGradient const& d_out, gradient_targets const& targets, Rule const& rule,
                            attention_options const& options = {}) noexcept {
  const detail::fp_environment environment;
  detail::backward_problem pass =
      detail::backward_inputs_of<Rule>(query, key, value, forward, d_out, targets, options, environment);
  detail::report quick("heed::validate");
  (void)detail::check_backward(pass, rule, quick);
  return quick.code();
}
template <class Query, class Key, class Value, class OutGradient>
[[nodiscard]] errc validate(Query const& query, Key const& key, Value const& value, saved_result const& forward,
                            OutGradient const& d_out, gradient_targets const& targets,
                            attention_options const& options = {}) noexcept {
  return validate(query, key, value, forward, d_out, targets, no_mask{}, options);
}

/// What `attention_backward(the same arguments)` would do, as lines "name: value", as explain says it of attention. A
/// dry run: masks are asked about blocks, no tensor is read. Throws what attention_backward would throw.
template <class Query, class Key, class Value, class OutGradient, detail::rule_argument Rule>
[[nodiscard]] std::string explain(Query const& query, Key const& key, Value const& value, saved_result const& forward,
                                  OutGradient const& d_out, gradient_targets const& targets, Rule const& rule,
                                  attention_options const& options = {}) {
  using Real = detail::accumulate_type<Query>;
  const detail::fp_environment environment;
  detail::backward_problem pass =
      detail::backward_inputs_of<Rule>(query, key, value, forward, d_out, targets, options, environment);
  detail::require([&](detail::report& broken) { return detail::check_backward(pass, rule, broken); }, "heed::explain");
  const detail::prepared_rule<Rule> ready(rule, pass.call);
  std::vector<detail::rule_note> notes;
  detail::note_rules(rule, ready.rule(), notes);
  using ready_type = typename detail::prepared_rule<Rule>::type;
  constexpr bool is_bf16 = detail::are_bf16<Query, Key, Value>;
  const bool uses_bf16_dot = detail::allows_bf16_dot(pass);
  const detail::kernel<Real> run = detail::kernel_of<Real>(pass.call, detail::view_of(ready.rule()), {},
                                                           detail::verbs_of<Real, is_bf16>(uses_bf16_dot));
  detail::noted_stages<Rule> noted = detail::note_stages(rule, pass);
  detail::gradient_call<Real> all = detail::gradient_call_of<Real>(
      run, detail::gradient_verbs_of<Real, is_bf16>(uses_bf16_dot),
      detail::rule_gradient_of<Real, ready_type>(detail::current_isa().level), pass, noted);
  return detail::explain_backward(all, notes);
}
template <class Query, class Key, class Value, class OutGradient>
[[nodiscard]] std::string explain(Query const& query, Key const& key, Value const& value, saved_result const& forward,
                                  OutGradient const& d_out, gradient_targets const& targets,
                                  attention_options const& options = {}) {
  return explain(query, key, value, forward, d_out, targets, no_mask{}, options);
}

}  // namespace HEED_ABI
}  // namespace heed
