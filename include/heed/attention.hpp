// The front doors: check, choose, run.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "heed/base/function_ref.hpp"
#include "heed/cpu/forward.hpp"
#include "heed/cpu/prepare.hpp"
#include "heed/mask/causal.hpp"
#include "heed/mask/check.hpp"
#include "heed/score/check.hpp"
#include "heed/view/layout.hpp"

namespace heed {

/// What attention_with_weights returns.
template <class Element>
struct attention_result {
  tensor<Element, 4> out;      ///< [batch_size, num_heads, seq_len_q, head_dim_v]
  tensor<Element, 4> weights;  ///< [batch_size, num_heads, seq_len_q, seq_len_kv]
};

namespace detail {

template <class Given>
inline constexpr bool is_outputs = std::is_same_v<std::remove_cvref_t<Given>, outputs>;
template <class Given>
inline constexpr bool is_options = std::is_same_v<std::remove_cvref_t<Given>, attention_options>;
/// Whatever is no rule and no options is taken for an output, so that a wrong one is told what is wrong with it.
template <class Given>
concept output_argument = !rule_type<std::remove_cvref_t<Given>> && !is_options<Given>;
template <class Given>
concept rule_argument = rule_type<std::remove_cvref_t<Given>>;
template <class Given>
concept misplaced_argument = !rule_argument<Given> && !is_options<Given>;

template <class Given>
using element_of = typename std::remove_cvref_t<Given>::value_type;
template <class Given>
[[nodiscard]] consteval bool holds_floating_elements() {
  if constexpr (tensor_like<Given>) return floating_element<element_of<Given>>;
  return true;  // that it is no tensor is said elsewhere
}
/// float, or double where query is double.
template <class Query>
using accumulate_type = std::conditional_t<element_kind_of<element_of<Query>> == element_kind::float64, double, float>;

inline namespace HEED_ABI {

/// An operand whose type is forgotten; not given where it is no tensor, which is said elsewhere.
template <class Given>
[[nodiscard]] HEED_INLINE operand input_operand(Given const& given) noexcept {
  if constexpr (tensor_like<Given>) return operand_of(view_of_tensor(given));
  return {};
}

/// Says at compile time what the operands must be, then forgets their types.
template <class Query, class Key, class Value>
[[nodiscard]] problem inputs_of(Query const& query, Key const& key, Value const& value,
                                attention_options const& options) noexcept {
  static_assert(tensor_like<Query> && tensor_like<Key> && tensor_like<Value>,
                "heed::attention: query, key and value must each be a heed::tensor or a heed::tensor_view; wrap other "
                "memory in heed::tensor_view (for Eigen: heed::as_view)");
  static_assert(holds_floating_elements<Query>(),
                "heed::attention: query must hold half, bfloat16, float or double; convert its elements first");
  static_assert(holds_floating_elements<Key>(),
                "heed::attention: key must hold half, bfloat16, float or double; convert its elements first");
  static_assert(holds_floating_elements<Value>(),
                "heed::attention: value must hold half, bfloat16, float or double; convert its elements first");
  return {.query = input_operand(query),
          .key = input_operand(key),
          .value = input_operand(value),
          .out = {},
          .lse = {},
          .weights = {},
          .scores = {},
          .options = options,
          .environment = {}};
}

/// What the caller made, not a copy of it: copies of lists of scores take memory.
template <class Out>
[[nodiscard]] HEED_INLINE decltype(auto) outputs_of(Out&& out) noexcept {
  if constexpr (is_outputs<Out>) {
    return static_cast<outputs const&>(out);
  } else {
    return into(std::forward<Out>(out));
  }
}

HEED_INLINE void set_outputs(problem& call, outputs const& out) noexcept {
  call.out = out.out_operand();
  call.lse = out.lse_operand();
  call.weights = out.weights_operand();
  call.scores = out.score_operands();
}

/// Every rule of a call; the first broken one is reported.
template <class Rule>
[[nodiscard]] bool check(problem& call, Rule const& rule, report& broken) {
  return check_isa(broken) && read_problem(call, broken) && check_rule(rule, call, broken);
}

/// `check(report)` once without a text, and with one where it fails.
inline void require(function_ref<bool(report&)> check, char const* function) {
  report quick(function);
  if (check(quick)) return;
  std::string text;
  report spoken(function, &text);
  (void)check(spoken);
  raise(spoken.code(), text);
}

template <class Rule>
void check_or_raise(problem& call, Rule const& rule, char const* function) {
  require([&](report& broken) { return check(call, rule, broken); }, function);
}

/// Operands that are bfloat16 throughout.
template <class... Operands>
inline constexpr bool are_bf16 = ((element_kind_of<element_of<Operands>> == element_kind::bfloat16) && ...);

/// Whether options leave the bf16 dot product to such a call. Its scores are not scaled before the softmax: a huge
/// scale would not fit there, a tiny one would be lost to underflow, and 0 would not meet the NaN and infinities of
/// query. Dropout wants its probabilities as they are.
[[nodiscard]] inline bool allows_bf16_dot(problem const& call) noexcept {
  const double size = call.options.scale.has_value() ? __builtin_fabs(*call.options.scale) : 1.0;
  return size > 1e-36 && size < 1e37 && !call.options.precise && !call.drops();
}

/// The bf16 dot product rounds probabilities to bfloat16, which such a result hides and a wider one would show.
[[nodiscard]] inline bool hides_rounding(operand const& result) noexcept {
  return !result.given() || result.kind == element_kind::bfloat16;
}

/// The verbs for tiles of operands of these types.
template <class Query, class Key, class Value>
[[nodiscard]] verbs<accumulate_type<Query>> const& tile_verbs_for(problem const& call) noexcept {
  using Real = accumulate_type<Query>;
  verbs<Real> const& verb =
      verbs_of<Real, are_bf16<Query, Key, Value>>(hides_rounding(call.out) && allows_bf16_dot(call));
  return verbs_for_rows(verb, call.seq_len_q, (call.head_dim_qk | call.head_dim_v) % 2 == 0);
}

/// The verbs of a call: those for few query rows, null where it runs on tiles, and those of tiles or beside them.
template <class Real>
struct call_verbs {
  verbs<Real> const& verb;
  row_verbs<Real> const* few;
};
template <class Query, class Key, class Value>
[[nodiscard]] call_verbs<accumulate_type<Query>> verbs_for(problem const& call) noexcept {
  using Real = accumulate_type<Query>;
  verbs<Real> const& tile = tile_verbs_for<Query, Key, Value>(call);
  row_verbs<Real> const* const few =
      row_verbs_of<Real, element_kind_of<element_of<Key>>, element_kind_of<element_of<Value>>>(current_isa().level);
  if (decodes(call, few, tile)) return {verbs_of<Real, false>(false), few};
  return {tile, nullptr};
}

template <class Query, class Key, class Value, class Rule>
void run_forward(problem const& call, Rule const& rule) {
  using Real = accumulate_type<Query>;
  using ready_type = typename prepared_rule<Rule>::type;
  if (call.nothing_to_do()) return;
  const prepared_rule<Rule> ready(rule, call);
  const auto [verb, few] = verbs_for<Query, Key, Value>(call);
  forward<Real>(call, view_of(ready.rule()), rule_verbs_of<Real, ready_type>(rule_level(verb)), verb, few);
}

/// The forms that allocate: out, and weights where asked for, of query's element type.
template <class Query, class Key, class Value, class Rule>
[[nodiscard]] attention_result<element_of<Query>> attend_allocating(Query const& query, Key const& key,
                                                                    Value const& value, Rule const& rule,
                                                                    attention_options const& options, bool with_weights,
                                                                    char const* function) {
  const fp_environment environment;
  problem call = inputs_of(query, key, value, options);
  call.environment = environment.outside();
  check_or_raise(call, rule, function);
  using Element = element_of<Query>;
  attention_result<Element> result;
  result.out = tensor<Element, 4>({call.batch_size, call.num_heads, call.seq_len_q, call.head_dim_v});
  if (with_weights) {
    result.weights = tensor<Element, 4>({call.batch_size, call.num_heads, call.seq_len_q, call.seq_len_kv});
    call.weights = operand_of(result.weights.view());
  }
  call.out = operand_of(result.out.view());
  run_forward<Query, Key, Value>(call, rule);
  return result;
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// Scaled dot-product attention: out = softmax(mask(scale * query * key^transposed)) value, per batch item and head.
///
/// Shapes: query [B, Hq, Sq, D], key [B, Hkv, Skv, D], value [B, Hkv, Skv, Dv], out [B, Hq, Sq, Dv]; or all rank 3
///   [B, S, D] (one head), or all rank 2 [S, D]; lse has one axis less, weights are always rank 4. Hq is a multiple of
///   Hkv; query head h reads key-value head h / (Hq / Hkv). Any strides, any D and Dv from 1 up. Each operand is a
///   tensor or a view, of half, bfloat16, float or double, each its own. `out` may be into(out).lse(l).weights(w)
///   .scores(s, stage), any of them, scores more than once.
/// Rule: masks (no_mask, causal, window, prefix, documents, lengths, keep_mask, drop_mask, block_sparse, mask_fn) and
///   score stages (bias, alibi, relative_bias, score_fn, sink), joined with `&` in any number and order. All masks
///   apply, after every stage; stages apply in the order written, after options.softcap.
/// Units: scale is 1/sqrt(D) unless options say otherwise; lse is a natural logarithm.
/// Dropout: options.drop, on the probabilities; lse, weights and scores are those before.
/// Empty: a row that may see no key gives 0 (lse -inf). What is hidden may hold NaN: it changes nothing. Subnormal
///   numbers count as 0.
/// Error bound: accumulates in float, in double where query is double: at most twice the error of a plain loop in that
///   type plus 4 eps of the largest visible |value|; narrow outputs are rounded once. A row that sees one key returns
///   its value exactly.
/// Throws: heed::error before the first write (see errc), with the argument, its value, the rule and the fix;
///   std::bad_alloc; what the system says when no thread can be had is not an error. What a rule or options.executor
///   throws comes back from the call, and then out is undefined.
/// Cost: 2 B Hq Sq Skv (D + Dv) flops over the visible blocks; about a megabyte of scratch a thread for head dimensions
///   up to 512, kept by the thread; never a score matrix.
/// Threads: as options.threads says, of options.executor where one is given; safe to call from any number of threads;
///   the same bits for any number and any executor.
/// Source: online softmax after Milakov and Gimelshein (2018), tiled as in FlashAttention (Dao et al., 2022).
/// Example: examples/01_hello.cpp
template <class Query, class Key, class Value, detail::output_argument Out, detail::rule_argument Rule>
void attention(Query const& query, Key const& key, Value const& value, Out&& out, Rule const& rule,
               attention_options const& options = {}) {
  const detail::fp_environment environment;
  detail::problem call = detail::inputs_of(query, key, value, options);
  call.environment = environment.outside();
  outputs const& written = detail::outputs_of(std::forward<Out>(out));
  detail::set_outputs(call, written);
  detail::check_or_raise(call, rule, "heed::attention");
  detail::run_forward<Query, Key, Value>(call, rule);
}
template <class Query, class Key, class Value, detail::output_argument Out>
void attention(Query const& query, Key const& key, Value const& value, Out&& out,
               attention_options const& options = {}) {
  attention(query, key, value, std::forward<Out>(out), no_mask{}, options);
}
/// Catches what is neither a rule nor options, to say so in one line.
template <class Query, class Key, class Value, detail::output_argument Out, detail::misplaced_argument Given>
void attention(Query const&, Key const&, Value const&, Out&&, Given const&, attention_options const& = {}) {
  static_assert(
      !detail::misplaced_argument<Given>,
      "heed::attention: after out comes a rule, then options. Rules are masks (no_mask, causal, window, prefix, "
      "documents, lengths, keep_mask, drop_mask, block_sparse, mask_fn) and score stages (bias, alibi, relative_bias, "
      "score_fn, sink), joined with &; wrap a bool tensor in heed::keep_mask(m) (true = attend) or heed::drop_mask(m) "
      "(true = hidden), a float tensor in heed::bias(m), a functor in heed::mask_fn(f) or heed::score_fn(f)");
}

/// The same, allocating: returns out [B, Hq, Sq, Dv], rank 4 whatever the rank of query, in query's element type.
template <class Query, class Key, class Value, detail::rule_argument Rule>
[[nodiscard]] tensor<detail::element_of<Query>, 4> attention(Query const& query, Key const& key, Value const& value,
                                                             Rule const& rule, attention_options const& options = {}) {
  return detail::attend_allocating(query, key, value, rule, options, false, "heed::attention").out;
}
template <class Query, class Key, class Value>
[[nodiscard]] tensor<detail::element_of<Query>, 4> attention(Query const& query, Key const& key, Value const& value,
                                                             attention_options const& options = {}) {
  return attention(query, key, value, no_mask{}, options);
}

/// attention, allocating, with the probabilities: `auto [out, weights] = attention_with_weights(q, k, v, rule)`.
///
/// Shapes: weights [B, Hq, Sq, Skv] in query's element type; a hidden key has weight 0, an empty row only zeros, every
/// other row sums to 1. Cost: the memory of weights, and the writing of it; one more pass over the scores where query
/// is half or bfloat16. All else as attention.
template <class Query, class Key, class Value, detail::rule_argument Rule>
[[nodiscard]] attention_result<detail::element_of<Query>> attention_with_weights(
    Query const& query, Key const& key, Value const& value, Rule const& rule, attention_options const& options = {}) {
  return detail::attend_allocating(query, key, value, rule, options, true, "heed::attention_with_weights");
}
template <class Query, class Key, class Value>
[[nodiscard]] attention_result<detail::element_of<Query>> attention_with_weights(
    Query const& query, Key const& key, Value const& value, attention_options const& options = {}) {
  return attention_with_weights(query, key, value, no_mask{}, options);
}

}  // namespace HEED_ABI
}  // namespace heed
