// What is hidden may hold anything: the bits are those of a call where it holds zeros.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "support/bits.hpp"
#include "support/few_rows_scenario.hpp"
#include "support/run_scenario.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class T>
using one_call = std::function<void(scenario_inputs<T, T, T> const& in, outputs const& to)>;

/// Calls with zeros where nothing is visible, then with garbage.
template <class T>
void expect_same_results(scenario const& s, any_rule<accumulate_of<T>> const& rule, attention_options const& options,
                         one_call<T> const& call) {
  const auto run = [&](double hidden) {
    scenario_inputs<T, T, T> in(s);
    in.plant_garbage(s, rule, options, hidden);
    tensor<T, 4> out({s.batch, s.heads, s.rows, s.value_dim}), weights({s.batch, s.heads, s.rows, s.keys});
    tensor<accumulate_of<T>, 3> lse({s.batch, s.heads, s.rows});
    outputs targets = into(out).lse(lse);
    if (s.with_weights) targets = targets.weights(weights);
    call(in, targets);
    return std::tuple(std::move(out), std::move(lse), std::move(weights));
  };
  const auto [zero_out, zero_lse, zero_weights] = run(0);
  for (const double garbage : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()}) {
    const auto [out, lse, weights] = run(garbage);
    EXPECT_TRUE(same_bits(zero_out, out)) << garbage;
    EXPECT_TRUE(same_bits(zero_lse, lse)) << garbage;
    EXPECT_TRUE(same_bits(zero_weights, weights)) << garbage;
  }
}

template <class T>
void check_hidden(std::uint64_t first, std::uint64_t count, scenario (*draw)(std::uint64_t) = random_scenario) {
  for (std::uint64_t seed = first; seed < first + count; seed += thinned) {
    scenario s = draw(seed);
    s.rank = 4;
    testing::Message what;
    what << s << " type " << type_name<T>();
    SCOPED_TRACE(what);
    const rule_data data(s);
    const attention_options options{
        .scale = s.scale, .anchor = anchor_of(s, data), .drop = s.drop, .threads = s.threads};
    with_rule<rules_for<T>>(s, data, [&](auto const& rule) {
      expect_same_results<T>(s, rule, options, [&](auto const& in, outputs const& to) {
        attention(in.query.read_only(), in.key.read_only(), in.value.read_only(), to, rule, options);
      });
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Hidden, GarbageChangesNoBitFloat) { check_hidden<float>(60000, 250); }
TEST(Hidden, GarbageChangesNoBitHalf) { check_hidden<half>(61000, 100); }
TEST(Hidden, GarbageChangesNoBitBfloat16) { check_hidden<bfloat16>(62000, 100); }
TEST(Hidden, GarbageChangesNoBitDouble) { check_hidden<double>(63000, 100); }

TEST(Hidden, GarbageChangesNoBitFewRowsFloat) { check_hidden<float>(66000, 150, decode_scenario); }
TEST(Hidden, GarbageChangesNoBitFewRowsHalf) { check_hidden<half>(67000, 30, decode_scenario); }
TEST(Hidden, GarbageChangesNoBitFewRowsBfloat16) { check_hidden<bfloat16>(68000, 30, decode_scenario); }
TEST(Hidden, GarbageChangesNoBitFewRowsDouble) { check_hidden<double>(69000, 30, decode_scenario); }

TEST(Hidden, GarbageChangesNoBitHalfVectorFloat) { check_hidden<float>(69500, 150, half_vector_scenario); }
TEST(Hidden, GarbageChangesNoBitHalfVectorHalf) { check_hidden<half>(69700, 30, half_vector_scenario); }

/// Subnormal sums become a zero that has a sign; 0 times a hidden value has one too.
TEST(Hidden, SignOfAHiddenValueDoesNotReachAZero) {
  for (auto const& [rows, dim] : {std::pair{1, 1}, {1, 16}, {8, 1}, {8, 16}, {70, 1}, {70, 16}}) {
    tensor<float, 2> query({rows, 1}), key({3, 1}), value({3, dim});
    for (index_t i = 0; i < rows; ++i) query(i, 0) = 1;
    key(0, 0) = key(2, 0) = 0;
    key(1, 0) = 5;
    tensor<bool, 2> mask({1, 3});
    mask(0, 0) = mask(0, 1) = true;
    mask(0, 2) = false;
    const auto with_hidden = [&](float hidden) {
      for (index_t d = 0; d < dim; ++d) {
        value(0, d) = -1.2e-38f;  // the least normal number: its share is none
        value(1, d) = -0.0f;
        value(2, d) = hidden;
      }
      return attention(query, key, value, keep_mask(mask));
    };
    const auto clean = with_hidden(1);
    EXPECT_TRUE(same_bits(clean, with_hidden(-1)));
    EXPECT_TRUE(same_bits(clean, with_hidden(std::numeric_limits<float>::quiet_NaN())));
  }
}

/// A key that some rows of a tile may see and others may not holds a NaN: exactly the former get it.
TEST(Hidden, NotANumberInAVisiblePlaceReachesTheRowsThatSeeIt) {
  for (std::uint64_t seed = 64000; seed < 64200; seed += thinned) {
    scenario s = seed % 4 == 0   ? decode_scenario(seed)
                 : seed % 4 == 1 ? half_vector_scenario(seed)
                                 : random_scenario(seed);
    s.rank = 4;
    // What a bias of -inf hides is not asked here.
    if (s.stage == stage_kind::bias || s.stage == stage_kind::masked_bias || s.stage == stage_kind::all) {
      s.stage = stage_kind::none;
    }
    s.keys = s.keys == 0 ? 1 : s.keys;
    testing::Message what;
    what << s;
    SCOPED_TRACE(what);
    const rule_data data(s);
    const attention_options options{
        .scale = s.scale, .anchor = anchor_of(s, data), .drop = s.drop, .threads = s.threads};
    with_rule(s, data, [&](auto const& rule) {
      scenario_inputs<float, float, float> in(s);
      tensor<float, 4> clean({s.batch, s.heads, s.rows, s.value_dim}), out({s.batch, s.heads, s.rows, s.value_dim});
      attention(in.query.view(), in.key.view(), in.value.view(), clean, rule, options);
      random_source random(seed);
      const index_t b = random.between(0, s.batch - 1), h = random.between(0, s.kv_heads - 1),
                    j = random.between(0, s.keys - 1), column = random.between(0, s.value_dim - 1);
      const bool in_key = random.chance(0.5);
      (in_key ? in.key.view()(b, h, j, random.between(0, s.dim - 1)) : in.value.view()(b, h, j, column)) =
          random.chance(0.5) ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::quiet_NaN();
      attention(in.query.view(), in.key.view(), in.value.view(), out, rule, options);
      const layout kind = in_key ? s.key_layout : s.value_layout;
      for (index_t ob = 0; ob < s.batch; ++ob) {
        const auto exists = reference::limits_of(rule, options.anchor, ob, s.rows, s.keys);
        for (index_t oh = 0; oh < s.heads; ++oh) {
          const bool shares = (ob == b || kind == layout::shared_batch) &&
                              (oh / (s.heads / s.kv_heads) == h || kind == layout::shared_heads);
          for (index_t i = 0; i < s.rows; ++i) {
            const bool sees = shares && i < exists.query_len && j >= exists.key_begin && j < exists.key_end &&
                              reference::is_visible(rule, position{ob, oh, i, j, exists.offset}, exists);
            for (index_t d = 0; d < s.value_dim; ++d) {
              if (sees && (in_key || d == column)) {
                ASSERT_TRUE(std::isnan(out(ob, oh, i, d))) << "row " << i << " sees key " << j;
              } else {
                ASSERT_EQ(std::memcmp(&out(ob, oh, i, d), &clean(ob, oh, i, d), sizeof(float)), 0)
                    << "row " << i << " dim " << d << " does not see key " << j;
              }
            }
          }
        }
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

/// A second look at a split, without what is hidden, comes between the keys and the values of the next one, and between
/// the runs of its heads: it leaves their keys, scores and blocks as they are.
template <class Key, class T>
void check_second_look(index_t group, index_t keys, index_t dim, layout kind) {
  random_source random(65000);
  const auto fill = [&](auto& box) {
    box.fill([&](index_t, index_t, index_t, index_t) { return random.uniform() - 0.5; });
  };
  stored<T> query({2, 2 * group, 1, dim}, layout::contiguous), value({2, 2, keys, 64}, layout::contiguous);
  stored<T> key({2, 2, keys, dim}, layout::contiguous);
  stored<Key> same_key({2, 2, keys, dim}, kind);
  fill(query), fill(value), fill(key);
  same_key.fill(
      [&](index_t b, index_t h, index_t j, index_t d) { return static_cast<double>(key.view()(b, h, j, d)); });
  // In one batch item every second head sees every third block only; all of one split is hidden from all heads.
  tensor<bool, 4> keep({2, 2 * group, 1, keys});
  const auto hidden = [&](index_t j) { return j % 50 == 7 || j / 1024 == (group == 8 ? 0 : 1); };
  for (index_t h = 0; h < 2 * group; ++h) {
    for (index_t j = 0; j < keys; ++j) {
      keep(0, h, 0, j) = !hidden(j) && (h % 2 == 0 || j / 128 % 3 == 0);
      keep(1, h, 0, j) = !hidden(j);
    }
  }
  const auto call = [&](auto const& with, int threads) {
    tensor<T, 4> out({2, 2 * group, 1, 64});
    attention(query.read_only(), with, value.read_only(), out, keep_mask(keep), {.threads = threads});
    return out;
  };
  const auto expected = call(key.read_only(), 1);
  for (const double garbage : {1.0, std::numeric_limits<double>::quiet_NaN()}) {
    for (index_t j = 0; j < keys; ++j) {
      for (index_t d = j % 64; hidden(j) && d < 64; d += 3) value.view()(j / 50 % 2, 1, j, d) = static_cast<T>(garbage);
    }
    for (int threads : {1, 7}) {
      EXPECT_TRUE(same_bits(expected, call(key.read_only(), threads))) << garbage << ", threads " << threads;
      EXPECT_TRUE(same_bits(expected, call(same_key.read_only(), threads))) << garbage << ", threads " << threads;
    }
  }
}

TEST(Hidden, ASecondLookAtASplitLeavesTheNextOneAsItIs) {
  for (auto const& [group, keys] : {std::pair<index_t, index_t>(1, 5000), {4, 2300}, {8, 6000}}) {
    SCOPED_TRACE(testing::Message() << group << " heads of a group, " << keys << " keys");
    check_second_look<float, float>(group, keys, 64, layout::transposed);
    check_second_look<float, float>(group, keys, 5, layout::contiguous);  // less than a vector
    check_second_look<double, float>(group, keys, 64, layout::contiguous);
    check_second_look<double, double>(group, keys, 64, layout::transposed);
    check_second_look<half, half>(group, keys, 64, layout::transposed);
  }
}

/// Rows that see nothing are 0, not -0 or what the thread has computed before.
TEST(Hidden, EmptyRowsHoldNothingOfCallsBefore) {
  constexpr index_t rows = 200, dim = 64;
  tensor<float, 2> query({rows, dim}), key({rows, dim}), value({rows, dim}), out({rows, dim});
  for (index_t i = 0; i < rows * dim; ++i) value.data()[i] = -3;
  attention(query, key, value, out, {.threads = 1});
  ASSERT_EQ(out(0, 0), -3);
  attention(query, key, value, out, causal{}, {.anchor = at_offset(-rows), .threads = 1});
  for (index_t i = 0; i < rows * dim; ++i) {
    ASSERT_EQ(out.data()[i], 0);
    ASSERT_FALSE(std::signbit(out.data()[i])) << i;
  }
}

}  // namespace
