// Runs one line of the oracle's table on the kernels and lets the judge look at everything that was written.
#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "heed/heed.hpp"
#include "support/scenario.hpp"

namespace heed::test {

/// Fills the inputs of a scenario.
template <class Q, class K, class V>
struct scenario_inputs {
  stored<Q> query;
  stored<K> key;
  stored<V> value;
  tensor<double, 4> exact_query, exact_key, exact_value;  // what the kernels should see

  explicit scenario_inputs(scenario const& s) {
    using edge = guarded_memory::edge;
    random_source random(s.seed + 1234567);
    const auto side = [&] { return random.chance(0.5) ? edge::back : edge::front; };
    query = stored<Q>({s.batch, s.heads, s.rows, s.dim}, s.query_layout, side());
    key = stored<K>({s.batch, s.kv_heads, s.keys, s.dim}, s.key_layout, side());
    value = stored<V>({s.batch, s.kv_heads, s.keys, s.value_dim}, s.value_layout, side());
    query.fill([&](index_t, index_t, index_t, index_t d) {
      switch (s.data) {
        case data_kind::zero_query: return 0.0;
        case data_kind::even: return d == 0 ? 1.0 : 0.0;
        case data_kind::constant: return d < 4 ? 0.5 : 0.0;  // few terms: equal ones all round the same way
        case data_kind::large_logits: return 30 * random.normal();
        case data_kind::far_logits: return 1 + 0.003 * random.normal();
        case data_kind::rising: return 1 + 0.1 * random.normal();
        case data_kind::outliers: return random.normal() + (random.chance(0.001) ? 10 * random.normal() : 0);
        default: return random.normal();
      }
    });
    key.fill([&](index_t, index_t, index_t j, index_t d) {
      switch (s.data) {
        case data_kind::constant: return 0.25;
        // Equal weights, 0.92 of the largest until the last key is eight times as large: then 1/8 each.
        case data_kind::even: return d > 0 ? 0.0 : j == 0 ? 0.0833816 : j == s.keys - 1 ? 2.0794415 : 0.0;
        case data_kind::far_logits: return 1 + 0.003 * random.normal();
        case data_kind::rising: return 0.05 * static_cast<double>(j) + 0.1 * random.normal();
        case data_kind::outliers: return random.normal() + (random.chance(0.001) ? 10 * random.normal() : 0);
        default: return random.normal();
      }
    });
    value.fill([&](index_t, index_t, index_t, index_t) {
      if (s.data == data_kind::even) return 0.5 + random.uniform();
      return random.normal() + (s.data == data_kind::outliers && random.chance(0.001) ? 10 * random.normal() : 0);
    });
    exact_query = exact(query.view());
    exact_key = exact(key.view());
    exact_value = exact(value.view());
  }

  /// `garbage` in every element that no row may see.
  void plant_garbage(scenario const& s, any_rule<accumulate_of<Q>> const& rule, attention_options const& options,
                     double garbage = std::numeric_limits<double>::quiet_NaN()) {
    const auto shared = [](layout kind) { return kind == layout::shared_heads || kind == layout::shared_batch; };
    const index_t group = s.heads / s.kv_heads;
    for (index_t b = 0; b < s.batch; ++b) {
      const auto exists = reference::limits_of(rule, options.anchor, b, s.rows, s.keys);
      for (index_t h = 0; h < s.heads && s.query_layout != layout::shared_batch; ++h) {
        for (index_t i = exists.query_len; i < s.rows; ++i) {
          for (index_t d = 0; d < s.dim; ++d) query.view()(b, h, i, d) = static_cast<Q>(garbage);
        }
      }
      for (index_t h = 0; h < s.kv_heads; ++h) {
        for (index_t j = 0; j < s.keys; ++j) {
          bool visible = false;
          for (index_t g = h * group; g < (h + 1) * group; ++g) {
            for (index_t i = 0; i < exists.query_len && !visible; ++i) {
              visible = j >= exists.key_begin && j < exists.key_end &&
                        is_visible(rule, position{b, g, i, j, exists.offset}, exists);
            }
          }
          if (visible) continue;
          for (index_t d = 0; d < s.dim && !shared(s.key_layout); ++d) key.view()(b, h, j, d) = static_cast<K>(garbage);
          for (index_t d = 0; d < s.value_dim && !shared(s.value_layout); ++d) {
            value.view()(b, h, j, d) = static_cast<V>(garbage);
          }
        }
      }
    }
  }

 private:
  template <class T>
  static tensor<double, 4> exact(tensor_view<T, 4> const& view) {
    tensor<double, 4> values({view.extent(0), view.extent(1), view.extent(2), view.extent(3)});
    index_t place = 0;
    for (index_t b = 0; b < view.extent(0); ++b) {
      for (index_t h = 0; h < view.extent(1); ++h) {
        for (index_t row = 0; row < view.extent(2); ++row) {
          for (index_t d = 0; d < view.extent(3); ++d) {
            values.data()[place++] = rounded<accumulate_of<Q>>(static_cast<double>(view(b, h, row, d)));
          }
        }
      }
    }
    return values;
  }
};

/// One call of a scenario. What does not look at the type of its rule is compiled once for all rules.
template <class Q, class K, class V, class O>
class trial {
 public:
  using accumulate = accumulate_of<Q>;

  trial(scenario const& given, attention_options const& options)
      : scenario_(given),
        options_(options),
        in_(given),
        out_({scenario_.batch, scenario_.heads, scenario_.rows, scenario_.value_dim}, scenario_.out_layout),
        lse_({scenario_.batch, scenario_.heads, scenario_.rows, 1}, scenario_.lse_layout),
        weights_({scenario_.batch, scenario_.heads, scenario_.rows, scenario_.keys}, scenario_.weights_layout) {}

  template <class Rule>
  void run(Rule const& rule) {
    const any_rule<accumulate> asked = rule;
    if (scenario_.garbage) in_.plant_garbage(scenario_, asked, options_);
    const outputs to = targets();
    if (scenario_.rank == 4) {
      attention(in_.query.read_only(), in_.key.read_only(), in_.value.read_only(), to, rule, options_);
    } else if (scenario_.rank == 3) {
      attention(in_.query.rank3(), in_.key.rank3(), in_.value.rank3(), to, rule, options_);
    } else {
      attention(in_.query.rank2(), in_.key.rank2(), in_.value.rank2(), to, rule, options_);
    }
    judge(asked);
  }

 private:
  outputs targets() {
    const auto given = [&](auto const& out, auto const& lse) {
      outputs to = into(out);
      if (scenario_.with_lse) to = to.lse(lse);
      if (scenario_.with_weights) to = to.weights(weights_.view());
      return to;
    };
    if (scenario_.rank == 4) return given(out_.view(), lse_.lse3());
    return scenario_.rank == 3 ? given(out_.rank3(), lse_.lse2()) : given(out_.rank2(), lse_.lse1());
  }

  void judge(any_rule<accumulate> const& rule) {
    const verdict<accumulate> right(in_.exact_query, in_.exact_key, in_.exact_value, rule, options_, scenario_.how);
    EXPECT_TRUE(right.out(out_.view()));
    EXPECT_TRUE(out_.gaps_intact());
    if (scenario_.with_lse) {
      EXPECT_TRUE(right.lse(lse_.lse3()));
    }
    EXPECT_TRUE(scenario_.with_lse ? lse_.gaps_intact() : lse_.untouched());
    if (scenario_.with_weights) {
      EXPECT_TRUE(right.weights(weights_.view()));
    }
    EXPECT_TRUE(scenario_.with_weights ? weights_.gaps_intact() : weights_.untouched());
  }

  scenario const& scenario_;
  attention_options const& options_;
  scenario_inputs<Q, K, V> in_;
  stored<O> out_;
  stored<accumulate> lse_;
  stored<O> weights_;
};

template <class Q, class K, class V, class O, rules Choice = rules::all>
void run_scenario(scenario const& s) {
  testing::Message what;
  what << s << " types " << type_name<Q>() << " " << type_name<K>() << " " << type_name<V>() << " -> "
       << type_name<O>();
  SCOPED_TRACE(what);
  const rule_data data(s);
  const attention_options options{
      .scale = s.scale, .softcap = s.softcap, .anchor = anchor_of(s, data), .drop = s.drop, .threads = s.threads};
  trial<Q, K, V, O> one(s, options);
  with_rule<Choice>(s, data, [&](auto const& rule) { one.run(rule); });
}

/// Scenarios [first, first + count) of one combination of types; HEED_ORACLE_SEED runs a single one, HEED_ORACLE_TIMES
/// that many times as many.
template <class Q, class K, class V, class O>
void run_scenarios(std::uint64_t first, std::uint64_t count) {
  if (char const* const seed = std::getenv("HEED_ORACLE_SEED")) {
    run_scenario<Q, K, V, O, rules_for<Q>>(random_scenario(std::strtoull(seed, nullptr, 10)));
    return;
  }
  if (char const* const times = std::getenv("HEED_ORACLE_TIMES")) count *= std::strtoull(times, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; seed += thinned) {
    run_scenario<Q, K, V, O, rules_for<Q>>(random_scenario(seed));
    if (testing::Test::HasFailure()) return;  // one is enough to work on
  }
}

}  // namespace heed::test
