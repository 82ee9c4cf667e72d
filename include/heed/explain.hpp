// The front doors that compute nothing: validate says whether a call would be refused, explain what it would do.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/attention.hpp"
#include "heed/cpu/explain.hpp"
#include "heed/view/partial.hpp"

namespace heed {
namespace detail {

/// What may stand for query, key or value: not what validate of merge takes.
template <class Given>
concept input_argument = !is_outputs<Given> && !std::is_same_v<std::remove_cvref_t<Given>, partial_result>;

inline namespace HEED_ABI {

template <class Query, class Key, class Value, class Rule>
[[nodiscard]] errc validate_inputs(Query const& query, Key const& key, Value const& value, outputs const* out,
                                   Rule const& rule, attention_options const& options) noexcept {
  const fp_environment environment;
  problem call = inputs_of(query, key, value, options);
  if (out != nullptr) set_outputs(call, *out);
  report quick("heed::validate");
  (void)check(call, rule, quick);
  return quick.code();
}

template <class Query, class Key, class Value, class Rule>
[[nodiscard]] std::string explain_inputs(Query const& query, Key const& key, Value const& value, outputs const* out,
                                         Rule const& rule, attention_options const& options) {
  const fp_environment environment;
  problem call = inputs_of(query, key, value, options);
  call.environment = environment.outside();
  if (out != nullptr) set_outputs(call, *out);
  check_or_raise(call, rule, "heed::explain");
  const prepared_rule<Rule> ready(rule, call);
  std::vector<rule_note> notes;
  note_rules(rule, ready.rule(), notes);
  const auto [verb, few] = verbs_for<Query, Key, Value>(call);
  return explain<accumulate_type<Query>>(call, view_of(ready.rule()), notes, verb, few);
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// The first rule that `attention(the same arguments)` breaks, or errc::ok. Reads lists and lengths, calls no functor,
/// allocates nothing, throws nothing.
template <detail::input_argument Query, detail::input_argument Key, class Value, detail::output_argument Out,
          detail::rule_argument Rule>
[[nodiscard]] errc validate(Query const& query, Key const& key, Value const& value, Out&& out, Rule const& rule,
                            attention_options const& options = {}) noexcept {
  outputs const& written = detail::outputs_of(std::forward<Out>(out));
  return detail::validate_inputs(query, key, value, &written, rule, options);
}
template <detail::input_argument Query, detail::input_argument Key, class Value, detail::output_argument Out>
[[nodiscard]] errc validate(Query const& query, Key const& key, Value const& value, Out&& out,
                            attention_options const& options = {}) noexcept {
  return validate(query, key, value, std::forward<Out>(out), no_mask{}, options);
}
template <detail::input_argument Query, detail::input_argument Key, class Value, detail::rule_argument Rule>
[[nodiscard]] errc validate(Query const& query, Key const& key, Value const& value, Rule const& rule,
                            attention_options const& options = {}) noexcept {
  return detail::validate_inputs(query, key, value, nullptr, rule, options);
}
template <detail::input_argument Query, detail::input_argument Key, class Value>
[[nodiscard]] errc validate(Query const& query, Key const& key, Value const& value,
                            attention_options const& options = {}) noexcept {
  return validate(query, key, value, no_mask{}, options);
}

/// What `attention(the same arguments)` would do, as lines "name: value": the instruction set, the tile, how many
/// blocks of scores are skipped, computed whole, or looked at one by one, what is packed, threads, flops, bytes,
/// scratch; then a line for each rule, in the order written, and the verbs that run.
///
/// A dry run: masks are asked about blocks and an executor how many threads it has, no tensor is read. Throws what
/// attention would throw.
template <detail::input_argument Query, detail::input_argument Key, class Value, detail::output_argument Out,
          detail::rule_argument Rule>
[[nodiscard]] std::string explain(Query const& query, Key const& key, Value const& value, Out&& out, Rule const& rule,
                                  attention_options const& options = {}) {
  outputs const& written = detail::outputs_of(std::forward<Out>(out));
  return detail::explain_inputs(query, key, value, &written, rule, options);
}
template <detail::input_argument Query, detail::input_argument Key, class Value, detail::output_argument Out>
[[nodiscard]] std::string explain(Query const& query, Key const& key, Value const& value, Out&& out,
                                  attention_options const& options = {}) {
  return explain(query, key, value, std::forward<Out>(out), no_mask{}, options);
}
template <detail::input_argument Query, detail::input_argument Key, class Value, detail::rule_argument Rule>
[[nodiscard]] std::string explain(Query const& query, Key const& key, Value const& value, Rule const& rule,
                                  attention_options const& options = {}) {
  return detail::explain_inputs(query, key, value, nullptr, rule, options);
}
template <detail::input_argument Query, detail::input_argument Key, class Value>
[[nodiscard]] std::string explain(Query const& query, Key const& key, Value const& value,
                                  attention_options const& options = {}) {
  return explain(query, key, value, no_mask{}, options);
}

}  // namespace HEED_ABI
}  // namespace heed
