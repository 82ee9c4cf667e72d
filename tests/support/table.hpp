// The part of the oracle's table that is written down rather than drawn: every head dimension, every pair of lengths,
// every layout, for one element type.
#pragma once

#include "support/run_scenario.hpp"

namespace heed::test {

inline constexpr index_t table_dims[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  15,  16,  17,
                                         20, 31, 32, 33, 63, 64, 65, 80, 96, 128, 129, 256};
inline constexpr index_t table_sizes[] = {1, 3, 7, 17, 59, 65, 97, 129};

/// Stops a sweep at its first failure.
#define HEED_STOP_ON_FAILURE() \
  if (testing::Test::HasFailure()) return

template <class T>
void sweep_head_dims() {
  std::uint64_t turn = 0;
  for (index_t dim : table_dims) {
    for (index_t value_dim : {dim, index_t{1}, index_t{16}, index_t{33}, index_t{64}}) {
      scenario s;
      s.seed = ++turn;
      if (turn % thinned != 0) continue;
      s.kv_heads = 1, s.heads = 2;
      s.rows = table_sizes[turn % 8], s.keys = table_sizes[(turn / 3 + 3) % 8];
      s.dim = dim, s.value_dim = value_dim;
      s.rule = turn % 2 == 0 ? rule_kind::none : rule_kind::causal;
      s.anchor_kind = turn % 4 < 2 ? anchor::rule::bottom_right : anchor::rule::top_left;
      run_scenario<T, T, T, T, rules_for<T>>(s);
      HEED_STOP_ON_FAILURE();
      if (value_dim == dim) continue;
      std::swap(s.dim, s.value_dim);
      run_scenario<T, T, T, T, rules_for<T>>(s);
      HEED_STOP_ON_FAILURE();
    }
  }
}

template <class T>
void sweep_lengths() {
  std::uint64_t turn = 0;
  for (index_t rows : table_sizes) {
    for (index_t keys : table_sizes) {
      for (rule_kind rule : {rule_kind::none, rule_kind::causal, rule_kind::lengths_causal}) {
        scenario s;
        s.seed = ++turn;
        if (turn % thinned != 0) continue;
        s.batch = rule == rule_kind::lengths_causal ? 2 : 1;
        s.rows = rows, s.keys = keys;
        s.dim = turn % 2 == 0 ? 20 : 64, s.value_dim = turn % 3 == 0 ? 7 : s.dim;
        s.rule = rule;
        s.with_weights = turn % 5 == 0;
        run_scenario<T, T, T, T, rules_for<T>>(s);
        HEED_STOP_ON_FAILURE();
      }
    }
  }
  for (index_t rows : {index_t{1}, index_t{3}, index_t{1025}}) {
    scenario s;
    s.seed = ++turn;
    if (rows > 3 && thinned > 1) continue;
    s.rows = rows, s.keys = 1025;
    s.dim = 16, s.value_dim = 17;
    s.rule = rule_kind::causal;
    s.threads = 0;
    run_scenario<T, T, T, T, rules_for<T>>(s);
    HEED_STOP_ON_FAILURE();
  }
}

template <class T>
void sweep_layouts() {
  scenario base;
  base.batch = 2, base.heads = 4, base.kv_heads = 2, base.rows = 37, base.keys = 133, base.dim = 17,
  base.value_dim = 20;
  base.rule = rule_kind::causal_keep;
  base.with_weights = true;
  const auto run = [&](auto const& change, layout kind) {
    scenario s = base;
    s.seed = 900 + static_cast<std::uint64_t>(kind);
    change(s) = kind;
    run_scenario<T, T, T, T, rules_for<T>>(s);
  };
  for (layout kind : input_layouts) {
    run([](scenario& s) -> layout& { return s.query_layout; }, kind);
    run([](scenario& s) -> layout& { return s.key_layout; }, kind);
    run([](scenario& s) -> layout& { return s.value_layout; }, kind);
    HEED_STOP_ON_FAILURE();
  }
  for (layout kind : output_layouts) {
    run([](scenario& s) -> layout& { return s.out_layout; }, kind);
    run([](scenario& s) -> layout& { return s.lse_layout; }, kind);
    run([](scenario& s) -> layout& { return s.weights_layout; }, kind);
    HEED_STOP_ON_FAILURE();
  }
}

/// The inputs that the accuracy rule names: logits near +-1e4, outliers, maxima that come last, odd scales, long rows.
template <class T>
void sweep_hard_data() {
  std::uint64_t turn = 5000;
  for (data_kind data : {data_kind::large_logits, data_kind::outliers, data_kind::rising}) {
    for (std::optional<double> scale :
         {std::optional<double>(), std::optional<double>(-1.0), std::optional<double>(0.0), std::optional<double>(1.0),
          std::optional<double>(40.0)}) {
      for (rule_kind rule : {rule_kind::none, rule_kind::keep}) {
        scenario s;
        s.seed = ++turn;
        if (turn % thinned != 0) continue;
        s.rows = 50, s.keys = 300, s.dim = 64, s.value_dim = 33;
        s.data = data, s.scale = scale, s.rule = rule;
        run_scenario<T, T, T, T, rules_for<T>>(s);
        HEED_STOP_ON_FAILURE();
      }
    }
  }
  for (data_kind data : {data_kind::normal, data_kind::outliers, data_kind::rising}) {
    scenario s;
    s.seed = ++turn;
    s.rows = 2, s.keys = thinned > 1 ? 2048 : 16384, s.dim = 64, s.value_dim = 8;
    s.data = data;
    run_scenario<T, T, T, T, rules_for<T>>(s);
    HEED_STOP_ON_FAILURE();
  }
}

#define HEED_TABLE_TESTS(suite, type)                                    \
  TEST(suite, EveryHeadDim) { heed::test::sweep_head_dims<type>(); }     \
  TEST(suite, EveryPairOfLengths) { heed::test::sweep_lengths<type>(); } \
  TEST(suite, EveryLayout) { heed::test::sweep_layouts<type>(); }        \
  TEST(suite, HardData) { heed::test::sweep_hard_data<type>(); }

}  // namespace heed::test
