// How a gradient of a final score goes back through a rule's stages: each stage's derivative from its definition.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "heed/reference/adjusted.hpp"
#include "heed/view/tensor.hpp"

namespace heed::reference {

/// The gradients of a rule's own numbers, one entry for each stage of a kind, in the order written. Those of a bias
/// have its extents, with 1 for the axes it lacks.
template <class Accumulate>
struct stage_gradients {
  std::vector<tensor<Accumulate, 4>> biases;
  std::vector<std::vector<Accumulate>> sinks, slopes;
  std::vector<tensor<Accumulate, 2>> tables;
};

namespace detail {

/// How many stages of a kind a rule has.
template <class Kind, class Rule>
inline constexpr std::size_t stages_of = std::is_same_v<Kind, Rule> ? 1 : 0;
template <class Kind, class First, class Second>
inline constexpr std::size_t stages_of<Kind, both<First, Second>> = stages_of<Kind, First> + stages_of<Kind, Second>;

template <class Function>
inline constexpr bool has_derivative = true;
template <class Function>
inline constexpr bool has_derivative<score_fn<Function>> = false;

inline namespace HEED_ABI {

/// Zeros of the shapes that a rule asks for, appended.
template <class Accumulate, class Rule>
void append_zeros(Rule const& rule, index_t num_heads, stage_gradients<Accumulate>& found) {
  if constexpr (is_joined<Rule>) {
    append_zeros(rule.first, num_heads, found);
    append_zeros(rule.second, num_heads, found);
  } else if constexpr (std::is_same_v<Rule, bias>) {
    auto const& extents = rule.terms().extents;
    found.biases.push_back(tensor<Accumulate, 4>({extents[0], extents[1], extents[2], extents[3]}));
  } else if constexpr (std::is_same_v<Rule, sink>) {
    found.sinks.emplace_back(static_cast<std::size_t>(num_heads));
  } else if constexpr (std::is_same_v<Rule, alibi>) {
    found.slopes.emplace_back(static_cast<std::size_t>(num_heads));
  } else if constexpr (std::is_same_v<Rule, relative_bias>) {
    found.tables.push_back(tensor<Accumulate, 2>({rule.table.extent(0), num_heads}));
  }
}

/// Central differences of f at steps that halve, extrapolated to a step of 0: exact to about 1e-12 for a smooth f. A
/// derivative in closed form is for score_fn(f, derivative).
template <class Function>
[[nodiscard]] double extrapolated_slope(Function const& f, double at) {
  constexpr int levels = 5;
  double slopes[levels] = {}, step = 0.125 * std::fmax(1.0, std::fabs(at) / 1000);
  for (int level = 0; level < levels; ++level, step /= 2) {
    slopes[level] = (f(at + step) - f(at - step)) / ((at + step) - (at - step));
  }
  double weight = 4;
  for (int order = 1; order < levels; ++order, weight *= 4) {
    for (int level = 0; level + order < levels; ++level) {
      slopes[level] = slopes[level + 1] + (slopes[level + 1] - slopes[level]) / (weight - 1);
    }
  }
  return slopes[0];
}

/// d f / d score at the score that f is given.
template <class Accumulate, class Rule>
[[nodiscard]] Accumulate user_slope(Rule const& rule, position const& at, Accumulate score) {
  if constexpr (has_derivative<Rule>) {
    using given = std::conditional_t<std::is_same_v<Accumulate, float>, float, double>;
    return static_cast<Accumulate>(rule.derivative()(static_cast<given>(score), at));
  } else {
    const auto f = [&](double moved) { return static_cast<double>(rule.function()(moved, at)); };
    return static_cast<Accumulate>(extrapolated_slope(f, static_cast<double>(score)));
  }
}

/// Takes the gradient of a score back through the stages of `rule`, last stage first, and adds it to those of the
/// numbers it passes; `score` is what the rule was given, `first` says how many stages of a kind stand before it.
template <class Narrow>
class puller {
 public:
  struct numbers {
    std::size_t bias = 0, alibi = 0, relative = 0;
  };

  template <class Accumulate, class Rule>
  static Accumulate pull(Rule const& rule, position const& at, staged<Accumulate> const& given, Accumulate gradient,
                         stage_gradients<Accumulate>& found, numbers first = {}) {
    if constexpr (is_joined<Rule>) {
      using before = decltype(rule.first);
      staged<Accumulate> middle = given;
      adjust<Narrow>(rule.first, at, middle);
      gradient = pull(rule.second, at, middle, gradient, found,
                      {first.bias + stages_of<bias, before>, first.alibi + stages_of<alibi, before>,
                       first.relative + stages_of<relative_bias, before>});
      return pull(rule.first, at, given, gradient, found, first);
    } else if constexpr (std::is_same_v<Rule, bias>) {
      tensor<Accumulate, 4>& sums = found.biases[first.bias];
      sums(sums.extent(0) == 1 ? 0 : at.batch, sums.extent(1) == 1 ? 0 : at.head, sums.extent(2) == 1 ? 0 : at.query,
           sums.extent(3) == 1 ? 0 : at.key) += gradient;
    } else if constexpr (std::is_same_v<Rule, alibi>) {
      found.slopes[first.alibi][static_cast<std::size_t>(at.head)] -=
          static_cast<Accumulate>(std::fabs(keys_ahead(at))) * gradient;
    } else if constexpr (std::is_same_v<Rule, relative_bias>) {
      found.tables[first.relative](relative_bucket(rule, keys_ahead(at)), at.head) += gradient;
    } else if constexpr (is_user_stage<Rule>) {
      return gradient == 0 ? gradient : gradient * user_slope(rule, at, given.score);  // 0 whatever the slope
    }
    return gradient;
  }
};

/// Adds what a row gives to the sinks of its head: lse grows with a sink as it does with a score, and `delta` is what
/// growing costs.
template <class Accumulate, class Rule>
void pull_sinks(Rule const& rule, index_t head, Accumulate lse, Accumulate delta, stage_gradients<Accumulate>& found,
                std::size_t first = 0) {
  if constexpr (is_joined<Rule>) {
    pull_sinks(rule.first, head, lse, delta, found, first);
    pull_sinks(rule.second, head, lse, delta, found, first + stages_of<sink, decltype(rule.first)>);
  } else if constexpr (std::is_same_v<Rule, sink>) {
    const Accumulate logit = static_cast<Accumulate>(rule.logits[head]);
    if (logit == -std::numeric_limits<Accumulate>::infinity()) return;  // weighs nothing
    found.sinks[first][static_cast<std::size_t>(head)] -= std::exp(logit - lse) * delta;
  }
}

}  // namespace HEED_ABI
}  // namespace detail
}  // namespace heed::reference
