// The table of shapes, types, layouts, grouped heads, anchors and rules for gradients, against the reference in wider
// arithmetic; sizes are where a tile, a block or a vector ends, and one beside.
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>

#include "support/run_gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr index_t sizes[] = {1, 3, 7, 17, 59, 65, 97, 129};
constexpr index_t dims[] = {1, 2, 3, 5, 8, 9, 16, 17, 20, 32, 33, 48, 64, 65, 80, 96, 128, 129};

#define HEED_STOP_ON_FAILURE() \
  if (testing::Test::HasFailure()) return

parts with(std::initializer_list<part> these) {
  parts all;
  for (part one : these) all.add(static_cast<int>(one));
  return all;
}

/// The sizes of a scenario without anything else that it draws.
scenario plain(std::uint64_t seed, index_t rows, index_t keys, index_t dim, index_t value_dim) {
  scenario s;
  s.seed = seed;
  s.rows = rows, s.keys = keys, s.dim = dim, s.value_dim = value_dim;
  s.batch = seed % 5 == 0 ? 2 : 1;
  s.kv_heads = seed % 7 == 0 ? 2 : 1;
  s.heads = s.kv_heads * (seed % 3 == 0 ? 3 : 1);
  return s;
}

/// Rules of their own, each with its own kernel.
enum class kind { none, causal, bias, masked_bias, alibi, relative, user, sinks, count };
template <class T>
void run_kind(kind which, scenario const& s) {
  const auto run = [&](std::initializer_list<part> these, auto const& rule_of) {
    const combination given(with(these), s);
    const every_rule everything(given);
    run_gradients<T>(given, everything, rule_of(given.data));
  };
  const auto none = [](auto const&) { return no_mask{}; };
  const auto masked_bias = [](auto const& data) {
    return data.template dense<true>() & data.stages.dense() & sink{data.stages.logits};
  };
  if (which == kind::none) return run({}, none);
  if (which == kind::causal) return run({part::causal}, [](auto const&) { return causal{}; });
  // What a stage does to a gradient does not depend on the type: those beside float meet few of them here.
  if constexpr (!std::is_same_v<T, float>) {
    return run({part::keep, part::bias, part::sink}, masked_bias);
  } else {
    switch (which) {
      case kind::masked_bias: return run({part::keep, part::bias, part::sink}, masked_bias);
      case kind::bias: return run({part::bias}, [](auto const& data) { return data.stages.dense(); });
      case kind::alibi:
        return run({part::causal, part::alibi}, [](auto const& data) { return causal{} & alibi{data.stages.slopes}; });
      case kind::relative: return run({part::relative}, [](auto const& data) { return data.stages.relative(); });
      case kind::user: return run({part::score_fn}, [](auto const&) { return score_fn(bending{}); });
      default:
        return run({part::lengths, part::causal, part::sink}, [](auto const& data) {
          return causal{} & sink{data.stages.logits} &
                 lengths{.query = data.query_len, .key = data.key_len, .key_start = data.key_start};
        });
    }
  }
}

template <class T>
class GradientTable : public testing::Test {};
using types = testing::Types<float, double>;
struct names {
  template <class T>
  static std::string GetName(int) {
    return type_name<T>();
  }
};
TYPED_TEST_SUITE(GradientTable, types, names);

TYPED_TEST(GradientTable, EveryPairOfLengths) {
  std::uint64_t turn = 70000;
  for (index_t rows : sizes) {
    for (index_t keys : sizes) {
      if (++turn % thinned != 0) continue;
      for (kind which : {kind::none, turn % 2 == 0 ? kind::causal : kind::sinks}) {
        run_kind<TypeParam>(which, plain(turn, rows, keys, turn % 2 == 0 ? 20 : 64, turn % 3 == 0 ? 7 : 64));
        HEED_STOP_ON_FAILURE();
      }
    }
  }
}

TYPED_TEST(GradientTable, EveryHeadDim) {
  std::uint64_t turn = 71000;
  for (index_t dim : dims) {
    for (index_t value_dim : {dim, index_t{16}, index_t{33}}) {
      if (++turn % thinned != 0) continue;
      const index_t rows = sizes[turn % 8], keys = sizes[(turn / 3 + 3) % 8];
      const bool swaps = turn % 5 == 0;
      run_kind<TypeParam>(turn % 2 == 0 ? kind::none : kind::causal,
                          plain(turn, rows, keys, swaps ? value_dim : dim, swaps ? dim : value_dim));
      HEED_STOP_ON_FAILURE();
    }
  }
}

TYPED_TEST(GradientTable, EveryLayout) {
  std::uint64_t turn = 72000;
  for (layout one : input_layouts) {
    for (int which = 0; which < 5; ++which) {
      const bool is_output = which >= 3;
      if (is_output && (one == layout::shared_heads || one == layout::shared_batch)) continue;
      scenario s = plain(++turn, 19, 40, 17, 20);
      if (turn % thinned != 0) continue;
      s.batch = 2, s.kv_heads = 2, s.heads = 2;
      (which == 0   ? s.query_layout
       : which == 1 ? s.key_layout
       : which == 2 ? s.value_layout
       : which == 3 ? s.out_layout
                    : s.lse_layout) = one;
      run_kind<TypeParam>(kind::masked_bias, s);
      HEED_STOP_ON_FAILURE();
    }
  }
}

/// The judge takes its time.
scenario affordable(scenario s) {
  if (s.keys > 150) s.keys /= 4;
  if (s.heads > 4) s.heads = s.kv_heads;
  return s;
}

/// HEED_ORACLE_TIMES that many times as many. Anchors, soft caps, scales, data of all kinds, ranks, threads, for each
/// rule.
TYPED_TEST(GradientTable, DrawnAtRandom) {
  std::uint64_t count = 60;
  if (char const* const times = std::getenv("HEED_ORACLE_TIMES")) count *= std::strtoull(times, nullptr, 10);
  for (std::uint64_t seed = 73000; seed < 73000 + count; seed += thinned) {
    const scenario s = affordable(random_scenario(seed));
    run_kind<TypeParam>(static_cast<kind>(seed % static_cast<std::uint64_t>(kind::count)), s);
    HEED_STOP_ON_FAILURE();
  }
}

TYPED_TEST(GradientTable, LongRows) {
  if (thinned > 1) return;  // too slow there
  run_kind<TypeParam>(kind::none, plain(74001, 1025, 17, 16, 17));
  run_kind<TypeParam>(kind::causal, plain(74002, 17, 1025, 17, 16));
}

/// Half and bfloat16 meet few rules here.
template <class T>
void run_narrow(std::uint64_t first) {
  for (std::uint64_t seed = first; seed < first + 30; seed += thinned) {
    const scenario s = affordable(random_scenario(seed));
    run_kind<T>(seed % 2 == 0 ? kind::causal : kind::masked_bias, s);
    HEED_STOP_ON_FAILURE();
  }
}
TEST(GradientTableNarrow, Half) { run_narrow<half>(75000); }
TEST(GradientTableNarrow, Bfloat16) { run_narrow<bfloat16>(76000); }

/// The accuracy rule to the letter, on the inputs it names.
TEST(GradientAccuracy, ThreeTimesAPlainLoop) {
  if (thinned > 1) return;
  std::uint64_t turn = 77000;
  const auto check = [&]<class T>(T, data_kind data, std::optional<double> scale, index_t rows, index_t keys) {
    scenario s = plain(++turn, rows, keys, 64, 64);
    s.batch = 1, s.kv_heads = s.heads = 2;
    s.data = data, s.scale = scale, s.garbage = false;
    const combination given({}, s);
    const every_rule everything(given);
    run_gradients<T>(given, everything, no_mask{}, strictness::plain_loop);
  };
  const auto check_all = [&]<class T>(T type) {
    check(type, data_kind::normal, std::nullopt, 96, 150);
    check(type, data_kind::normal, 1.0, 96, 100);
    check(type, data_kind::normal, -0.125, 64, 100);
    check(type, data_kind::normal, 0.0, 64, 100);
    check(type, data_kind::outliers, std::nullopt, 96, 150);
    check(type, data_kind::rising, std::nullopt, 64, 300);
    check(type, data_kind::far_logits, 156.25, 64, 100);
    check(type, data_kind::far_logits, -156.25, 64, 100);
  };
  for_each_type(check_all);
}

}  // namespace
