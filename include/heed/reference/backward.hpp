// heed::reference::solve_backward: the definition of every gradient, as plain loops in double precision.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "heed/reference/forward.hpp"
#include "heed/reference/pulled.hpp"

namespace heed::reference {

/// What `solve_backward` returns: dq, dk, dv in the shapes of query, key and value, all of rank 4, and the gradients of
/// the rule's own numbers.
template <class Accumulate>
struct gradient_answer : stage_gradients<Accumulate> {
  tensor<Accumulate, 4> dq, dk, dv;
};

namespace detail {

inline namespace HEED_ABI {

/// The default of `solve_backward`: options.drop alone drops.
struct nothing_more_dropped {
  double operator()(position const&) const { return 1; }
};

/// d_lse of a row; ranks as those of lse. 0 where there is none.
template <class Accumulate, class Lse>
[[nodiscard]] Accumulate d_lse_at([[maybe_unused]] Lse const& d_lse, [[maybe_unused]] position const& at) {
  if constexpr (std::is_same_v<Lse, std::nullptr_t>) {
    return 0;
  } else if constexpr (Lse::rank == 3) {
    return static_cast<Accumulate>(d_lse(at.batch, at.head, at.query));
  } else if constexpr (Lse::rank == 2) {
    return static_cast<Accumulate>(d_lse(at.batch, at.query));
  } else {
    return static_cast<Accumulate>(d_lse(at.query));
  }
}

/// One row: the forward pass once more, then what each of its scores, keys and values gets.
template <class Accumulate, class Saved, class Query, class Key, class Value, class Gradient, class Rule, class Lse,
          class Factors>
class row_backward {
 public:
  tensor_view<Query, 4> const& query;
  tensor_view<Key, 4> const& key;
  tensor_view<Value, 4> const& value;
  tensor_view<Gradient, 4> const& d_out;
  Rule const& rule;
  attention_options const& options;
  Lse const& d_lse;
  Factors const& factors;
  limits const& exists;
  Accumulate scale;

  void run(position at, gradient_answer<Accumulate>& found) const {
    if (at.query >= exists.query_len) return;
    std::vector<Accumulate> weights(static_cast<std::size_t>(key.extent(2))), ignored(value_dims());
    const Accumulate lse = attend_row(query, key, value, rule, exists, scale, options, at, weights, ignored);
    if (lse == -std::numeric_limits<Accumulate>::infinity()) return;  // no key and no sink
    const std::vector<seen_score> scores = scores_of(at);
    if constexpr (!std::is_void_v<Saved>) {
      for (std::size_t place = 0; place < scores.size(); ++place) {
        if (scores[place].is_seen) weights[place] = std::exp(scores[place].last - lse);
      }
    }
    const Accumulate delta = delta_of(at, scores, weights);
    pull_sinks(rule, at.head, lse, delta, found);
    const index_t kv_head = kv_head_of(at);
    for (at.key = exists.key_begin; at.key < exists.key_end; ++at.key) {
      const std::size_t place = static_cast<std::size_t>(at.key);
      if (!scores[place].is_seen) continue;
      const Accumulate factor = factor_of(at), kept = weights[place] * factor;
      Accumulate dot = 0;
      for (index_t dim = 0; dim < value.extent(3); ++dim) {
        const Accumulate d_out_element = gradient(at, dim);
        if (factor != 0) dot += d_out_element * load<Accumulate, Query>(value(at.batch, kv_head, at.key, dim));
        if (factor != 0) found.dv(at.batch, kv_head, at.key, dim) += kept * d_out_element;
      }
      const Accumulate d_final = weights[place] * (factor * dot - delta);
      const Accumulate d_capped =
          puller<narrow>::pull(rule, at, staged<Accumulate>{scores[place].capped}, d_final, found);
      const Accumulate d_raw = scale * d_capped * cap_slope(scores[place].capped);
      for (index_t dim = 0; dim < query.extent(3); ++dim) {
        found.dq(at.batch, at.head, at.query, dim) +=
            d_raw * load<Accumulate, Query>(key(at.batch, kv_head, at.key, dim));
        found.dk(at.batch, kv_head, at.key, dim) +=
            d_raw * load<Accumulate, Query>(query(at.batch, at.head, at.query, dim));
      }
    }
  }

 private:
  using narrow = accumulate_type<std::remove_const_t<Query>>;
  /// A score as the first stage is given it, and as the softmax is.
  struct seen_score {
    Accumulate capped = 0, last = 0;
    bool is_seen = false;
  };

  [[nodiscard]] std::size_t value_dims() const { return static_cast<std::size_t>(value.extent(3)); }
  [[nodiscard]] index_t kv_head_of(position const& at) const { return at.head / (query.extent(1) / key.extent(1)); }
  [[nodiscard]] Accumulate gradient(position const& at, index_t dim) const {
    return load<Accumulate, Query>(d_out(at.batch, at.head, at.query, dim));
  }

  /// What dropout multiplies a probability with.
  [[nodiscard]] Accumulate factor_of(position const& at) const {
    return survivor(Accumulate{1}, options.drop, at, at.key) * static_cast<Accumulate>(factors(at));
  }

  /// The scores of a row; those that a mask or a term hides stay unseen.
  [[nodiscard]] std::vector<seen_score> scores_of(position at) const {
    std::vector<seen_score> scores(static_cast<std::size_t>(key.extent(2)));
    for (at.key = exists.key_begin; at.key < exists.key_end; ++at.key) {
      if (!is_visible(rule, at, exists)) continue;
      seen_score& score = scores[static_cast<std::size_t>(at.key)];
      score.capped = score_at(query, key, rule, exists, scale, options.softcap, at, score_stage::capped);
      staged<Accumulate> last{score.capped};
      adjust<narrow>(rule, at, last);
      score.last = last.score;
      score.is_seen = !last.is_hidden && last.score != -std::numeric_limits<Accumulate>::infinity();
    }
    return scores;
  }

  /// What a score gains for its row when it grows, less what d_lse gives: d_out . out - d_lse.
  [[nodiscard]] Accumulate delta_of(position at, std::vector<seen_score> const& scores,
                                    std::vector<Accumulate> const& weights) const {
    std::vector<Accumulate> out(value_dims());
    bool is_empty = true;
    const position row = at;
    for (at.key = exists.key_begin; at.key < exists.key_end; ++at.key) {
      const std::size_t place = static_cast<std::size_t>(at.key);
      if (!scores[place].is_seen) continue;
      is_empty = false;
      const Accumulate kept = weights[place] * factor_of(at);
      if (kept == 0) continue;
      for (index_t dim = 0; dim < value.extent(3); ++dim) {
        out[static_cast<std::size_t>(dim)] +=
            kept * load<Accumulate, Query>(value(at.batch, kv_head_of(at), at.key, dim));
      }
    }
    Accumulate delta = -d_lse_at<Accumulate>(d_lse, row);
    if (is_empty) return delta;  // out is 0 there, whatever d_out is
    for (index_t dim = 0; dim < value.extent(3); ++dim) {
      Accumulate element = out[static_cast<std::size_t>(dim)];
      if constexpr (!std::is_void_v<Saved>) {
        element = static_cast<Accumulate>(static_cast<Saved>(static_cast<double>(element)));
      }
      delta += gradient(row, dim) * element;
    }
    return delta;
  }

  /// 1 - tanh^2 of what the cap was given.
  [[nodiscard]] Accumulate cap_slope(Accumulate capped_score) const {
    if (!options.softcap || *options.softcap > static_cast<double>((std::numeric_limits<Accumulate>::max)())) return 1;
    const Accumulate ratio = capped_score / static_cast<Accumulate>(*options.softcap);
    return 1 - ratio * ratio;
  }
};

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// The gradients of sum(d_out * out) + sum(d_lse * lse), by plain loops, for checking and for learning.
///
/// It attends by itself and needs nothing saved. Shapes: as heed::attention_backward; `d_lse` is nullptr or has the
/// shape of lse. Empty rows and rows past a query length: 0; but a sink of an empty row, whose lse it is, gets d_lse.
/// Accumulate: double; long double judges double. With a type for Saved it is a program that keeps two things between
/// its passes: out, rounded to Saved, and lse, from which it finds the weights again.
/// factors(position), 0 or 1 / (1 - p), is for a dropout of another kind than options.drop.
/// A derivative that score_fn is not given is found by differences in double, to about 1e-12.
/// Throws: nothing but std::bad_alloc; it checks nothing (heed::validate does).
/// Cost: some 10 times that of solve, one thread.
template <class Accumulate = double, class Saved = void, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value, heed::detail::tensor_like Gradient, rule_type Rule,
          class Lse = std::nullptr_t, class Factors = detail::nothing_more_dropped>
[[nodiscard]] gradient_answer<Accumulate> solve_backward(Query const& query, Key const& key, Value const& value,
                                                         Gradient const& d_out, Rule const& rule,
                                                         attention_options const& options = {},
                                                         Lse const& d_lse = nullptr, Factors const& factors = {}) {
  const auto query4 = detail::four_axes(query);
  const auto key4 = detail::four_axes(key);
  const auto value4 = detail::four_axes(value);
  const auto d_out4 = detail::four_axes(d_out);
  const auto zeros = [](auto const& view) {
    return tensor<Accumulate, 4>({view.extent(0), view.extent(1), view.extent(2), view.extent(3)});
  };
  gradient_answer<Accumulate> found{{}, zeros(query4), zeros(key4), zeros(value4)};
  detail::append_zeros<Accumulate>(rule, query4.extent(1), found);
  const Accumulate scale = options.scale ? static_cast<Accumulate>(*options.scale)
                                         : Accumulate{1} / std::sqrt(static_cast<Accumulate>(query4.extent(3)));
  for (index_t batch = 0; batch < query4.extent(0); ++batch) {
    const limits exists = limits_of(rule, options.anchor, batch, query4.extent(2), key4.extent(2));
    const detail::row_backward<Accumulate, Saved, std::remove_reference_t<decltype(*query4.data())>,
                               std::remove_reference_t<decltype(*key4.data())>,
                               std::remove_reference_t<decltype(*value4.data())>,
                               std::remove_reference_t<decltype(*d_out4.data())>, Rule, Lse, Factors>
        row{query4, key4, value4, d_out4, rule, options, d_lse, factors, exists, scale};
    for (index_t head = 0; head < query4.extent(1); ++head) {
      for (index_t i = 0; i < query4.extent(2); ++i) row.run(position{batch, head, i, 0, exists.offset}, found);
    }
  }
  return found;
}
template <class Accumulate = double, class Saved = void, heed::detail::tensor_like Query, heed::detail::tensor_like Key,
          heed::detail::tensor_like Value, heed::detail::tensor_like Gradient>
[[nodiscard]] gradient_answer<Accumulate> solve_backward(Query const& query, Key const& key, Value const& value,
                                                         Gradient const& d_out, attention_options const& options = {}) {
  return solve_backward<Accumulate, Saved>(query, key, value, d_out, no_mask{}, options);
}

}  // namespace HEED_ABI
}  // namespace heed::reference
