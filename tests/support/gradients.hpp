// One call of the backward pass with everything that it may write, its buffers stale before.
#pragma once

#include <cstddef>
#include <vector>

#include "heed/heed.hpp"
#include "heed/reference/backward.hpp"
#include "support/cases.hpp"

namespace heed::test {

/// dq, dk, dv in the element type of the call, the gradients of the rule's numbers in the type it accumulates in.
template <class T>
struct differentiated : reference::stage_gradients<accumulate_of<T>> {
  tensor<T, 4> dq, dk, dv;
};

template <class T, std::size_t R>
void make_stale(tensor<T, R>& filled) {
  for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = static_cast<T>(777);
}

/// Adds the targets for every stage of a rule, in order.
template <class Real>
[[nodiscard]] gradient_targets with_stages(gradient_targets to, reference::stage_gradients<Real>& found) {
  const auto vector = [](std::vector<Real>& numbers) {
    return tensor_view<Real, 1>(numbers.data(), {static_cast<index_t>(numbers.size())});
  };
  for (auto& each : found.biases) to = to.bias(each);
  for (auto& each : found.sinks) to = to.sink(vector(each));
  for (auto& each : found.slopes) to = to.slopes(vector(each));
  for (auto& each : found.tables) to = to.table(each);
  return to;
}

/// Stale buffers of every shape that a call may write.
template <class T, class Query, class Key, class Value, class Rule>
[[nodiscard]] differentiated<T> stale_gradients(Query const& query, Key const& key, Value const& value,
                                                Rule const& rule) {
  const auto like = [](auto const& view) {
    return tensor<T, 4>({view.extent(0), view.extent(1), view.extent(2), view.extent(3)});
  };
  differentiated<T> found{{}, like(query), like(key), like(value)};
  reference::detail::append_zeros<accumulate_of<T>>(rule, query.extent(1), found);
  for (auto* each : {&found.dq, &found.dk, &found.dv}) make_stale(*each);
  for (auto& each : found.biases) make_stale(each);
  for (auto& each : found.tables) make_stale(each);
  for (auto* lists : {&found.sinks, &found.slopes}) {
    for (auto& each : *lists) each.assign(each.size(), 777);
  }
  return found;
}

/// The backward pass of something saved.
template <class Query, class Key, class Value, class Saved, class Gradient, class Rule, class Lse = std::nullptr_t>
auto differentiate_saved(Query const& query, Key const& key, Value const& value, Saved const& kept,
                         Gradient const& d_out, Rule const& rule, attention_options const& options = {},
                         Lse const& d_lse = nullptr) {
  using T = typename Query::value_type;
  differentiated<T> found = stale_gradients<T>(query, key, value, rule);
  gradient_targets to = with_stages<accumulate_of<T>>(gradients(found.dq, found.dk, found.dv), found);
  if constexpr (!std::is_same_v<Lse, std::nullptr_t>) to = to.lse(d_lse);
  attention_backward(query, key, value, saved(kept.out, kept.lse), d_out, to, rule, options);
  return found;
}

/// Forward and backward.
template <class Query, class Key, class Value, class Gradient, class Rule = no_mask, class Lse = std::nullptr_t>
auto differentiate(Query const& query, Key const& key, Value const& value, Gradient const& d_out, Rule const& rule = {},
                   attention_options const& options = {}, Lse const& d_lse = nullptr) {
  return differentiate_saved(query, key, value, attend(query, key, value, rule, options), d_out, rule, options, d_lse);
}

template <class T>
tensor<T, 4> filled_with(axes<4> extents, double number) {
  tensor<T, 4> filled(extents);
  for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = static_cast<T>(number);
  return filled;
}

/// The same bits in every gradient of two calls.
template <class T>
testing::AssertionResult same_gradients(differentiated<T> const& one, differentiated<T> const& other) {
  testing::AssertionResult so_far = testing::AssertionSuccess();
  const auto also = [&](char const* name, auto const& left, auto const& right) {
    const testing::AssertionResult same = same_bits(left, right);
    if (so_far && !same) so_far = testing::AssertionFailure() << name << same.message();
  };
  const auto list = [](std::vector<accumulate_of<T>> const& numbers) {
    return tensor_view<accumulate_of<T> const, 1>(numbers.data(), {static_cast<index_t>(numbers.size())});
  };
  also("dq", one.dq, other.dq), also("dk", one.dk, other.dk), also("dv", one.dv, other.dv);
  for (std::size_t i = 0; i < one.biases.size(); ++i) also("bias", one.biases[i], other.biases[i]);
  for (std::size_t i = 0; i < one.tables.size(); ++i) also("table", one.tables[i], other.tables[i]);
  for (std::size_t i = 0; i < one.sinks.size(); ++i) also("sink", list(one.sinks[i]), list(other.sinks[i]));
  for (std::size_t i = 0; i < one.slopes.size(); ++i) also("slopes", list(one.slopes[i]), list(other.slopes[i]));
  return so_far;
}

}  // namespace heed::test
