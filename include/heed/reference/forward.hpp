// heed::reference::attention: the definition of what every kernel computes, as plain loops in double precision.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/base/element.hpp"
#include "heed/reference/adjusted.hpp"
#include "heed/view/outputs.hpp"
#include "heed/view/tensor.hpp"

namespace heed::reference {

/// What `solve` returns: out [B, H, Sq, Dv], lse [B, H, Sq] and, where asked for, weights [B, H, Sq, Skv].
template <class Accumulate>
struct answer {
  tensor<Accumulate, 4> out;
  tensor<Accumulate, 3> lse;
  tensor<Accumulate, 4> weights;
};

namespace detail {
inline namespace HEED_ABI {

/// Rank 4 is [B, H, S, D], rank 3 [B, S, D] with one head, rank 2 [S, D].
template <heed::detail::tensor_like View>
[[nodiscard]] auto four_axes(View&& given) {
  using element = std::remove_reference_t<decltype(*given.data())>;
  constexpr std::size_t rank = std::remove_cvref_t<View>::rank;
  static_assert(rank >= 2, "heed::reference: query, key, value and out have rank 2, 3 or 4");
  if constexpr (rank == 4) {
    return tensor_view<element, 4>(given.data(), {given.extent(0), given.extent(1), given.extent(2), given.extent(3)},
                                   {given.stride(0), given.stride(1), given.stride(2), given.stride(3)});
  } else if constexpr (rank == 3) {
    return tensor_view<element, 4>(given.data(), {given.extent(0), 1, given.extent(1), given.extent(2)},
                                   {given.stride(0), index_t{0}, given.stride(1), given.stride(2)});
  } else {
    return tensor_view<element, 4>(given.data(), {1, 1, given.extent(0), given.extent(1)},
                                   {index_t{0}, index_t{0}, given.stride(0), given.stride(1)});
  }
}

/// What heed accumulates in: double iff the query is double. A wider key or value is rounded to it on load.
template <class Query>
using accumulate_type = std::conditional_t<element_kind_of<Query> == element_kind::float64, double, float>;

template <class Accumulate, class Query, class Element>
[[nodiscard]] Accumulate load(Element const& element) {
  if constexpr (element_kind_of<Element> == element_kind::float64) {
    return static_cast<Accumulate>(static_cast<accumulate_type<std::remove_const_t<Query>>>(element));
  } else {
    return static_cast<Accumulate>(element);
  }
}

/// One element of an output, rounded once; does nothing where the output was not asked for.
template <class Accumulate>
void store(heed::detail::operand const& place, index_t batch, index_t head, index_t row, index_t column,
           Accumulate value) {
  if (!place.given()) return;
  heed::detail::with_element(place.kind, [&]<class Element>(Element) {
    const Element element = static_cast<Element>(static_cast<double>(value));
    char* const begin = static_cast<char*>(place.row(batch, head, row));
    __builtin_memcpy(begin + column * place.strides[3] * static_cast<index_t>(sizeof(Element)), &element,
                     sizeof(Element));
  });
}

/// cap * tanh(score / cap), where there is a cap.
template <class Accumulate>
[[nodiscard]] Accumulate capped(Accumulate score, std::optional<double> const& softcap) {
  if (!softcap || *softcap > static_cast<double>((std::numeric_limits<Accumulate>::max)())) return score;
  const Accumulate cap = static_cast<Accumulate>(*softcap);
  return cap * std::tanh(score / cap);
}

/// One score as it is at a stage; what a rule hides is -inf once all stages are through, and is not computed before.
template <class Accumulate, class Query, class Key, class Rule>
[[nodiscard]] Accumulate score_at(tensor_view<Query, 4> const& query, tensor_view<Key, 4> const& key, Rule const& rule,
                                  limits const& exists, Accumulate scale, std::optional<double> const& softcap,
                                  position const& at, score_stage stage) {
  constexpr Accumulate minus_infinity = -std::numeric_limits<Accumulate>::infinity();
  if (stage == score_stage::biased && !is_visible(rule, at, exists)) return minus_infinity;
  const index_t kv_head = at.head / (query.extent(1) / key.extent(1));
  Accumulate dot = 0;
  for (index_t dim = 0; dim < query.extent(3); ++dim) {
    dot += load<Accumulate, Query>(query(at.batch, at.head, at.query, dim)) *
           load<Accumulate, Query>(key(at.batch, kv_head, at.key, dim));
  }
  if (stage == score_stage::raw) return scale * dot;
  staged<Accumulate> logit{capped(scale * dot, softcap)};
  if (stage == score_stage::capped) return logit.score;
  adjust<accumulate_type<std::remove_const_t<Query>>>(rule, at, logit);
  return logit.is_hidden ? minus_infinity : logit.score;
}

/// A probability after dropout.
template <class Accumulate>
[[nodiscard]] Accumulate survivor(Accumulate weight, dropout const& drop, position const& at, index_t key) {
  if (drop.p == 0) return weight;
  if (!dropout_keeps(drop, at.batch, at.head, at.query, key)) return Accumulate{0};
  return weight / static_cast<Accumulate>(1 - static_cast<long double>(drop.p));
}

/// One row of scores: softmax in two passes, then the weighted sum of the values. Hidden keys are not touched at all.
/// `weights` takes the probabilities [Skv], before dropout, `out` the sums [Dv]; returns lse.
template <class Accumulate, class Query, class Key, class Value, class Rule>
Accumulate attend_row(tensor_view<Query, 4> const& query, tensor_view<Key, 4> const& key,
                      tensor_view<Value, 4> const& value, Rule const& rule, limits const& exists, Accumulate scale,
                      attention_options const& options, position at, std::vector<Accumulate>& weights,
                      std::vector<Accumulate>& out) {
  constexpr Accumulate minus_infinity = -std::numeric_limits<Accumulate>::infinity();
  const index_t kv_head = at.head / (query.extent(1) / key.extent(1));
  weights.assign(weights.size(), minus_infinity);
  out.assign(out.size(), Accumulate{0});
  const index_t keys_end = at.query < exists.query_len ? exists.key_end : 0;

  Accumulate largest = minus_infinity;
  bool is_empty = true;
  for (at.key = exists.key_begin; at.key < keys_end; ++at.key) {
    const Accumulate logit = score_at(query, key, rule, exists, scale, options.softcap, at, score_stage::biased);
    if (logit == minus_infinity) continue;  // weighs nothing, and counts as hidden
    weights[static_cast<std::size_t>(at.key)] = logit;
    is_empty = false;
    if (logit > largest) largest = logit;
  }
  // A row past its length has no sink either.
  Accumulate largest_sink = minus_infinity;
  const auto with_sinks = [&](auto const& visit) {
    if (at.query < exists.query_len) for_each_sink(rule, at.head, visit);
  };
  with_sinks([&](float logit) {
    const Accumulate sink_logit = static_cast<Accumulate>(logit);
    if (!(sink_logit <= largest_sink)) largest_sink = sink_logit;
  });
  if (largest_sink == minus_infinity && is_empty) {
    weights.assign(weights.size(), Accumulate{0});
    return minus_infinity;
  }

  if (!(largest_sink <= largest)) largest = largest_sink;  // NaN, too
  Accumulate sum = 0;
  with_sinks([&](float logit) {
    if (static_cast<Accumulate>(logit) != minus_infinity) sum += std::exp(static_cast<Accumulate>(logit) - largest);
  });
  for (Accumulate& weight : weights) {
    if (weight == minus_infinity) continue;
    weight = std::exp(weight - largest);  // a NaN stays one, and inf - inf becomes one
    sum += weight;
  }
  out.assign(out.size(), Accumulate{0} / sum);  // NaN where the sum is, even if there is no key
  for (index_t j = 0; j < key.extent(2); ++j) {
    Accumulate& weight = weights[static_cast<std::size_t>(j)];
    if (weight == minus_infinity) {
      weight = 0;
      continue;
    }
    weight /= sum;
    const Accumulate survives = survivor(weight, options.drop, at, j);
    for (index_t dim = 0; dim < value.extent(3); ++dim) {
      out[static_cast<std::size_t>(dim)] += survives * load<Accumulate, Query>(value(at.batch, kv_head, j, dim));
    }
  }
  return largest + std::log(sum);
}

/// Every score that the caller asks for, hidden or not, from its definition.
template <class Accumulate, class Query, class Key, class Rule>
void write_scores(tensor_view<Query, 4> const& query, tensor_view<Key, 4> const& key, Rule const& rule,
                  attention_options const& options, heed::detail::score_list const& targets) {
  constexpr Accumulate minus_infinity = -std::numeric_limits<Accumulate>::infinity();
  const Accumulate scale = options.scale ? static_cast<Accumulate>(*options.scale)
                                         : Accumulate{1} / std::sqrt(static_cast<Accumulate>(query.extent(3)));
  for (heed::detail::score_output const& target : targets) {
    for (index_t batch = 0; batch < query.extent(0); ++batch) {
      const limits exists = limits_of(rule, options.anchor, batch, query.extent(2), key.extent(2));
      position at{batch, 0, 0, 0, exists.offset};
      for (at.head = 0; at.head < query.extent(1); ++at.head) {
        for (at.query = 0; at.query < query.extent(2); ++at.query) {
          for (at.key = 0; at.key < key.extent(2); ++at.key) {
            const bool is_there = at.query < exists.query_len && at.key >= exists.key_begin && at.key < exists.key_end;
            const Accumulate score = is_there
                                         ? score_at(query, key, rule, exists, scale, options.softcap, at, target.stage)
                                         : minus_infinity;
            store(target.to, batch, at.head, at.query, at.key, score);
          }
        }
      }
    }
  }
}

/// Calls visit(batch, head, row, weights, out, lse) for every row.
template <class Accumulate, class Query, class Key, class Value, class Rule, class Visitor>
void for_each_row(tensor_view<Query, 4> const& query, tensor_view<Key, 4> const& key,
                  tensor_view<Value, 4> const& value, Rule const& rule, attention_options const& options,
                  Visitor const& visit) {
  const Accumulate scale = options.scale ? static_cast<Accumulate>(*options.scale)
                                         : Accumulate{1} / std::sqrt(static_cast<Accumulate>(query.extent(3)));
  std::vector<Accumulate> weights(static_cast<std::size_t>(key.extent(2)));
  std::vector<Accumulate> out(static_cast<std::size_t>(value.extent(3)));
  for (index_t batch = 0; batch < query.extent(0); ++batch) {
    const limits exists = limits_of(rule, options.anchor, batch, query.extent(2), key.extent(2));
    for (index_t head = 0; head < query.extent(1); ++head) {
      for (index_t row = 0; row < query.extent(2); ++row) {
        const Accumulate lse = attend_row(query, key, value, rule, exists, scale, options,
                                          position{batch, head, row, 0, exists.offset}, weights, out);
        visit(batch, head, row, weights, out, lse);
      }
    }
  }
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// Attention by plain loops, for checking and for learning: a two-pass softmax, no tiles, no threads, no SIMD.
///
/// Shapes: as heed::attention; `out` is a view or tensor, or into(out).lse(l).weights(w).scores(s, stage); each rounded
/// once. Accumulate: double; `attention<long double>(...)` judges double. Empty rows: out and weights 0, lse -inf.
/// Throws: nothing but std::bad_alloc; it checks nothing (heed::validate does).
/// Cost: 2 * (Dqk + Dv) flops for each visible score, one thread, O(Skv + Dv) scratch.
template <class Accumulate = double, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value, rule_type Rule>
void attention(Query const& query, Key const& key, Value const& value, outputs const& targets, Rule const& rule,
               attention_options const& options = {}) {
  detail::for_each_row<Accumulate>(detail::four_axes(query), detail::four_axes(key), detail::four_axes(value), rule,
                                   options,
                                   [&](index_t batch, index_t head, index_t row, std::vector<Accumulate> const& weights,
                                       std::vector<Accumulate> const& sums, Accumulate lse) {
                                     index_t column = 0;
                                     for (Accumulate sum : sums)
                                       detail::store(targets.out_operand(), batch, head, row, column++, sum);
                                     detail::store(targets.lse_operand(), batch, head, row, 0, lse);
                                     column = 0;
                                     for (Accumulate weight : weights) {
                                       detail::store(targets.weights_operand(), batch, head, row, column++, weight);
                                     }
                                   });
  detail::write_scores<Accumulate>(detail::four_axes(query), detail::four_axes(key), rule, options,
                                   targets.score_operands());
}
template <class Accumulate = double, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value>
void attention(Query const& query, Key const& key, Value const& value, outputs const& targets,
               attention_options const& options = {}) {
  attention<Accumulate>(query, key, value, targets, no_mask{}, options);
}
template <class Accumulate = double, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value, heed::detail::tensor_like Out, rule_type Rule>
void attention(Query const& query, Key const& key, Value const& value, Out&& out, Rule const& rule,
               attention_options const& options = {}) {
  attention<Accumulate>(query, key, value, into(out), rule, options);
}
template <class Accumulate = double, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value, heed::detail::tensor_like Out>
void attention(Query const& query, Key const& key, Value const& value, Out&& out,
               attention_options const& options = {}) {
  attention<Accumulate>(query, key, value, into(out), no_mask{}, options);
}

/// The same, returning everything there is in the accumulate type, all of rank 4 (lse of rank 3).
///
/// Weights take Sq * Skv numbers for each head, so they are left out (a null tensor) with `with_weights = false`.
/// Empty rows: out and weights 0, lse -inf.
template <class Accumulate = double, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value, rule_type Rule>
[[nodiscard]] answer<Accumulate> solve(Query const& query, Key const& key, Value const& value, Rule const& rule,
                                       attention_options const& options = {}, bool with_weights = true) {
  const auto query4 = detail::four_axes(query);
  const auto key4 = detail::four_axes(key);
  const auto value4 = detail::four_axes(value);
  const index_t batch_size = query4.extent(0), num_heads = query4.extent(1), rows = query4.extent(2);
  answer<Accumulate> found{tensor<Accumulate, 4>({batch_size, num_heads, rows, value4.extent(3)}),
                           tensor<Accumulate, 3>({batch_size, num_heads, rows}), tensor<Accumulate, 4>()};
  if (with_weights) found.weights = tensor<Accumulate, 4>({batch_size, num_heads, rows, key4.extent(2)});
  detail::for_each_row<Accumulate>(query4, key4, value4, rule, options,
                                   [&](index_t batch, index_t head, index_t row, std::vector<Accumulate> const& weights,
                                       std::vector<Accumulate> const& sums, Accumulate lse) {
                                     found.lse(batch, head, row) = lse;
                                     for (index_t dim = 0; dim < value4.extent(3); ++dim) {
                                       found.out(batch, head, row, dim) = sums[static_cast<std::size_t>(dim)];
                                     }
                                     for (index_t j = 0; with_weights && j < key4.extent(2); ++j) {
                                       found.weights(batch, head, row, j) = weights[static_cast<std::size_t>(j)];
                                     }
                                   });
  return found;
}
template <class Accumulate = double, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value>
[[nodiscard]] answer<Accumulate> solve(Query const& query, Key const& key, Value const& value,
                                       attention_options const& options = {}, bool with_weights = true) {
  return solve<Accumulate>(query, key, value, no_mask{}, options, with_weights);
}

}  // namespace HEED_ABI
}  // namespace heed::reference
