// The stages on their own: slopes, buckets, what a functor may be, what a sink and a bias do at the ends of the
// numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/reference/forward.hpp"
#include "support/cases.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(AlibiSlopes, AreThoseOfThePaper) {
  EXPECT_EQ(alibi_slopes(1), (std::vector<float>{0x1p-8f}));
  EXPECT_EQ(alibi_slopes(2), (std::vector<float>{0x1p-4f, 0x1p-8f}));
  EXPECT_EQ(alibi_slopes(6), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  EXPECT_EQ(alibi_slopes(8),
            (std::vector<float>{0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f, 0x1p-5f, 0x1p-6f, 0x1p-7f, 0x1p-8f}));
  const std::vector<float> twelve = alibi_slopes(12);
  const double last[] = {0.7071068, 0.3535534, 0.1767767, 0.08838835};
  ASSERT_EQ(twelve.size(), 12u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(twelve[i], std::ldexp(1.0f, -static_cast<int>(i) - 1));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(static_cast<double>(twelve[8 + i]), last[i], 1e-7);
  EXPECT_TRUE(alibi_slopes(0).empty());
  EXPECT_THROW((void)alibi_slopes(-1), error);
  for (index_t heads = 1; heads < 70; ++heads) {
    // The paper's own recursion.
    const auto of_power = [](index_t n, index_t i) {
      return std::pow(2.0, -8.0 * static_cast<double>(i + 1) / double(n));
    };
    const index_t whole = index_t{1} << static_cast<int>(std::floor(std::log2(static_cast<double>(heads))));
    const std::vector<float> found = alibi_slopes(heads);
    for (index_t h = 0; h < heads; ++h) {
      const double expected = h < whole ? of_power(whole, h) : of_power(2 * whole, 2 * (h - whole));
      EXPECT_NEAR(static_cast<double>(found[static_cast<std::size_t>(h)]), expected, 1e-7) << heads << " " << h;
    }
  }
}

TEST(RelativeBias, BucketsAreThoseOfT5) {
  tensor<float, 2> table({32, 1});
  const relative_bias both_ways{.table = table};
  // As worked out from the published formula, for 32 buckets, max_distance 128.
  const index_t away[] = {0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 100000};
  const index_t buckets[] = {0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15};
  for (std::size_t i = 0; i < std::size(away); ++i) {
    EXPECT_EQ(both_ways.bucket(-away[i]), buckets[i]) << away[i];
    EXPECT_EQ(both_ways.bucket(away[i]), buckets[i] + (away[i] > 0 ? 16 : 0)) << away[i];
  }
  const relative_bias backwards{.table = table, .bidirectional = false};
  EXPECT_EQ(backwards.bucket(5), 0);
  EXPECT_EQ(backwards.bucket(INT64_MAX), 0);
  EXPECT_EQ(backwards.bucket(-15), 15);
  EXPECT_EQ(backwards.bucket(-16), 16);
  EXPECT_EQ(backwards.bucket(-64), 26);
  EXPECT_EQ(backwards.bucket(-127), 31);
  EXPECT_EQ(backwards.bucket(INT64_MIN), 31);
}

TEST(RelativeBias, BucketsAgreeWithTheReference) {
  for (index_t count : {2, 3, 4, 5, 8, 12, 16, 32, 33, 64}) {
    tensor<float, 2> table({count, 1});
    for (bool bidirectional : {false, true}) {
      for (index_t most : {17, 20, 40, 64, 128, 512, 1024}) {
        const relative_bias rule{.table = table, .bidirectional = bidirectional, .max_distance = most};
        if (most <= rule.exact_buckets()) continue;
        for (index_t ahead = -1200; ahead <= 1200; ++ahead) {
          ASSERT_EQ(rule.bucket(ahead), reference::detail::relative_bucket(rule, static_cast<double>(ahead)))
              << count << " " << bidirectional << " " << most << " " << ahead;
        }
      }
    }
  }
}

/// Calls on P data: out and lse against the reference.
template <class Rule>
void expect_like_reference(Rule const& rule, index_t heads, index_t rows, index_t keys, index_t batch = 1,
                           attention_options const& options = {}) {
  const auto q = pattern<double>(31, 1, {batch, heads, rows, 4}), k = pattern<double>(5, 20, {batch, heads, keys, 4}),
             v = pattern<double>(7, 30, {batch, heads, keys, 4});
  const auto found = attend(q, k, v, rule, options);
  const auto expected = reference::solve(q, k, v, rule, options);
  for (index_t i = 0; i < found.out.size(); ++i) ASSERT_NEAR(found.out.data()[i], expected.out.data()[i], 1e-12) << i;
  for (index_t i = 0; i < found.lse.size(); ++i) {
    const double right = expected.lse.data()[i];
    ASSERT_NEAR(std::isinf(right) ? 0 : found.lse.data()[i] - right, 0, 1e-12 * (1 + std::fabs(right))) << i;
  }
}

TEST(RelativeBias, EveryOffset) {
  tensor<float, 2> table({16, 3});
  for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<float>(i % 7) - 3;
  // A far list with a bucket for each distance: tables of their own for each sequence.
  const std::vector<index_t> far_apart = {0, 1000000, -1000000}, near_by = {-3, 0, 70},
                             ends = {INT64_MAX, INT64_MIN, 5};
  for (index_t most : {index_t{20}, index_t{1} << 40, INT64_MAX}) {
    const relative_bias rule{.table = table, .max_distance = most};
    for (index_t rows : {1, 5, 60}) {
      for (index_t offset : {index_t{0}, index_t{-100}, index_t{33}, index_t{100000}, INT64_MAX, INT64_MIN}) {
        expect_like_reference(rule, 3, rows, 90, 3, {.anchor = at_offset(offset)});
      }
      expect_like_reference(rule, 3, rows, 90, 3, {.anchor = top_left});
      expect_like_reference(rule, 3, rows, 90, 3);
      expect_like_reference(rule, 3, rows, 90, 3, {.anchor = at_offset(far_apart)});
      expect_like_reference(rule, 3, rows, 90, 3, {.anchor = at_offset(near_by)});
      expect_like_reference(rule, 3, rows, 90, 3, {.anchor = at_offset(ends)});
    }
  }
}

TEST(RelativeBias, IsSpelledWithTensorsAndViews) {
  tensor<float, 2> table({4, 1});
  const tensor<float, 2>& fixed = table;
  tensor_view<float, 2> view = table;
  for (relative_bias const& rule : {relative_bias{.table = table}, relative_bias{.table = fixed},
                                    relative_bias{.table = view}, relative_bias{table, false, 16}}) {
    EXPECT_EQ(rule.table.data(), table.data());
  }
  // Transposed in memory, and of a larger one.
  float memory[10] = {9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto v = counted_values<double>(2);
  const auto found = means<double>(1, 1, v, relative_bias{.table = tensor_view<float, 2>(memory + 8, {4, 1}, {-2, 1})});
  // Key 0 is one behind: bucket 1, 6; key 1 is here: bucket 0, 8.
  EXPECT_NEAR(found.out.data()[0], 1 / (1 + std::exp(-2.0)), 1e-12);
}

TEST(RelativeBias, MinusInfinityHides) {
  for_each_type([]<class T>(T) {
    tensor<float, 2> table({4, 1});
    table(2, 0) = table(3, 0) = -static_cast<float>(infinity);  // keys behind the row
    tensor<T, 4> v = values_of<T>({1, 3, not_a_number});
    tensor<T, 4> q({1, 1, 2, 1}), k({1, 1, 3, 1});
    k(0, 0, 2, 0) = static_cast<T>(not_a_number);
    expect_values(attend(q, k, v, relative_bias{.table = table, .max_distance = 8}, {.anchor = top_left}).out, {1, 2});
  });
}

TEST(ScoreFn, EveryKindOfFunctor) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 3});
    const auto shifted = [&](auto const& rule) {
      const double right = (1 + 3 / std::exp(1.0)) / (1 + 1 / std::exp(1.0));
      expect_values(means<T>(1, 2, v, rule).out, {right, right});
      expect_values(means<T>(1, 40, v, rule).out, std::vector<double>(40, right));
    };
    const double term = 1;  // weights e to 1
    shifted(score_fn([=](auto s, position at) { return s - decltype(s)(at.key) * decltype(s)(term); }));
    shifted(score_fn([=](float s, position at) { return s - static_cast<float>(at.key) * static_cast<float>(term); }));
    shifted(score_fn([=](double s, position const& at) { return s - static_cast<double>(at.key) * term; }));
    // Not copied byte by byte, and not copied at all.
    const std::vector<double> terms = {0, term};
    shifted(score_fn([terms](auto s, position at) { return s - decltype(s)(terms[std::size_t(at.key)]); }));
    auto owned = std::make_unique<double>(term);
    shifted(
        score_fn([p = std::move(owned)](auto s, position at) { return s - decltype(s)(at.key) * decltype(s)(*p); }));
    // With its derivative, which attention has no use for.
    shifted(score_fn([=](auto s, position at) { return s - decltype(s)(at.key) * decltype(s)(term); },
                     [](auto s, position) { return decltype(s)(1); }));
  });
}

TEST(ScoreFn, SeesPositionsThatExist) {
  tensor<float, 4> q({2, 2, 21, 1}), k({2, 1, 35, 1}), v({2, 1, 35, 1});
  const std::vector<index_t> rows = {21, 5}, keys = {35, 8};
  attention_options const options{.threads = 1};
  index_t outside = 0;
  const auto watch = score_fn([&](auto s, position at) {
    outside += at.query < 0 || at.query >= 21 || at.key < 0 || at.key >= 35 || at.head < 0 || at.head > 1 ||
               at.batch < 0 || at.batch > 1 || at.offset != keys[std::size_t(at.batch)] - rows[std::size_t(at.batch)];
    return s;
  });
  (void)attention(q, k, v, watch & causal{} & lengths{.query = rows, .key = keys}, options);
  EXPECT_EQ(outside, 0);
}

TEST(ScoreFn, WhatItThrowsComesBack) {
  const tensor<float, 4> q({1, 1, 5, 1});
  const auto rule = score_fn([](auto s, position at) {
    if (at.key == 3) throw std::runtime_error("key 3");
    return s;
  });
  EXPECT_THROW((void)attention(q, q, q, rule), std::runtime_error);
}

TEST(Stages, GoInTheOrderWritten) {
  const auto v = values_of<double>({0, 1});
  const float terms[] = {0, 1};
  const bias one(tensor_view<float const, 1>(terms, {2}));
  const auto twice = score_fn([](auto s, position) { return 2 * s; });
  const auto weight = [&](auto const& rule) { return means<double>(1, 1, v, rule).out.data()[0]; };
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_NEAR(weight(one & twice), logistic(2), 1e-15);
  EXPECT_NEAR(weight(twice & one), logistic(1), 1e-15);
  EXPECT_NEAR(weight(one & twice & one), logistic(3), 1e-15);
  EXPECT_NEAR(weight(causal{} & one & (one & twice)), logistic(4), 1e-15);
}

TEST(Bias, MinusInfinityHidesWhateverComesLater) {
  for_each_type([]<class T>(T) {
    const float terms[] = {0, -static_cast<float>(infinity), 0};
    const bias hides(tensor_view<float const, 1>(terms, {3}));
    tensor<T, 4> v = values_of<T>({1, not_a_number, 3});
    for (index_t rows : {1, 20}) {
      tensor<T, 4> q({1, 1, rows, 1}), k({1, 1, 3, 1});
      k(0, 0, 1, 0) = static_cast<T>(not_a_number);
      const auto zero = score_fn([](auto s, position) { return s * 0; });
      const auto largest = score_fn([](auto s, position) { return s == 0 ? s : decltype(s)(5); });
      const std::vector<double> two(static_cast<std::size_t>(rows), 2.0);
      expect_values(attend(q, k, v, hides).out, two);
      expect_values(attend(q, k, v, hides & zero).out, two);
      expect_values(attend(q, k, v, hides & largest).out, two);
      expect_values(attend(q, k, v, hides & hides & score_fn([](auto, position) { return 1.0f; })).out, two);
    }
  });
}

TEST(Bias, FiniteDoublesStayFinite) {
  // In a float call; beyond its range they are its largest numbers.
  const double terms[] = {-1e300, -1e300, -infinity, -1e39};
  const auto rows_of = [&](index_t rows) { return bias(tensor_view<double const, 2>(terms, {rows, 4}, {0, 1})); };
  for (index_t rows : {1, 3, 40}) {
    const auto found = means<float>(1, rows, values_of<float>({1, 2, 77, 6}), rows_of(rows));
    expect_values(found.out, std::vector<double>(static_cast<std::size_t>(rows), 3.0));
    EXPECT_TRUE(std::isfinite(found.lse.data()[0]));
  }
  const double ahead[] = {0, 1e300};
  expect_values(means<float>(1, 1, values_of<float>({1, 2}), bias(tensor_view<double const, 1>(ahead, {2}))).out, {2});
  const double many[] = {0, infinity};  // as IEEE has it
  EXPECT_TRUE(std::isnan(
      means<float>(1, 1, values_of<float>({1, 2}), bias(tensor_view<double const, 1>(many, {2}))).out.data()[0]));
  // In double they are what they are.
  const double apart[] = {-1e300, -1e301};
  expect_values(means<double>(1, 1, values_of<double>({1, 2}), bias(tensor_view<double const, 1>(apart, {2}))).out,
                {1});
}

TEST(Bias, NaNReachesItsRowsOnly) {
  for_each_type([]<class T>(T) {
    for (index_t rows : {2, 3, 19, 70}) {
      const index_t poisoned = rows / 2;
      tensor<float, 2> terms({rows, 33});
      terms(poisoned, 7) = static_cast<float>(not_a_number);
      const auto found = means<T>(1, rows, counted_values<T>(33), bias(terms));
      for (index_t i = 0; i < rows; ++i) {
        EXPECT_EQ(std::isnan(static_cast<double>(found.out.data()[i])), i == poisoned) << i;
        EXPECT_EQ(std::isnan(found.lse.data()[i]), i == poisoned) << i;
        if (i == poisoned) continue;
        EXPECT_NEAR(static_cast<double>(found.out.data()[i]), 16, 16 * tolerance<T>());
      }
    }
  });
}

TEST(Sink, JoinsTheDenominatorOnly) {
  for_each_type([]<class T>(T) {
    const std::vector<float> logits = {std::log(2.0f), -static_cast<float>(infinity)}, more = {0, 0};
    for (index_t rows : {1, 2, 30, 65}) {
      const std::size_t count = static_cast<std::size_t>(rows);
      const auto v = [&] {
        tensor<T, 4> both_heads({1, 2, 2, 1});
        for (index_t i = 0; i < 4; ++i) both_heads.data()[i] = static_cast<T>(i % 2 == 0 ? 1.0f : 3.0f);
        return both_heads;
      }();
      const auto expect = [&](auto const& rule, double first, double second, double first_lse, double second_lse) {
        const auto found = means<T>(2, rows, v, rule);
        std::vector<double> out(count, first), lse(count, first_lse);
        out.insert(out.end(), count, second);
        lse.insert(lse.end(), count, second_lse);
        expect_values(found.out, out, 1e-7);  // log(2) is rounded to float
        expect_values(found.lse, lse, 1e-7);
      };
      expect(sink{.logits = logits}, 1, 2, std::log(4.0), std::log(2.0));
      expect(sink{.logits = logits} & sink{.logits = more}, 4.0 / 5, 4.0 / 3, std::log(5.0), std::log(3.0));
      expect(sink{.logits = logits} & sink{.logits = logits}, 4.0 / 6, 2, std::log(6.0), std::log(2.0));
    }
  });
}

TEST(Sink, EmptyRows) {
  for_each_type([]<class T>(T) {
    const std::vector<float> logits = {0.75f};
    for (index_t rows : {1, 3, 40}) {
      const bool none[] = {false};
      const std::vector<double> zeros(static_cast<std::size_t>(rows), 0.0), sinks(static_cast<std::size_t>(rows), 0.75);
      const auto hidden = means<T>(1, rows, values_of<T>({5, not_a_number}),
                                   keep_mask(tensor_view<bool const, 1>(none, {1})) & sink{.logits = logits});
      expect_values(hidden.out, zeros);
      expect_values(hidden.lse, sinks);
      const auto without_keys = means<T>(1, rows, tensor<T, 4>({1, 1, 0, 1}), sink{.logits = logits});
      expect_values(without_keys.out, zeros);
      expect_values(without_keys.lse, sinks);
    }
    // Rows past their sequence have no softmax at all.
    const std::vector<index_t> query = {1};
    const auto found = means<T>(1, 2, values_of<T>({5}), lengths{.query = query} & sink{.logits = logits});
    EXPECT_EQ(static_cast<double>(found.out.data()[1]), 0.0);
    EXPECT_EQ(found.lse.data()[1], -infinity);
  });
}

TEST(Sink, WeightsSumToLessThanOne) {
  const std::vector<float> logits = {1.0f, -2.0f};
  for (index_t rows : {1, 20}) {
    const tensor<float, 4> q({1, 2, rows, 3}), k({1, 2, 7, 3});
    const auto [out, weights] = attention_with_weights(q, k, k, causal{} & sink{.logits = logits});
    const auto expected = reference::solve(q, k, k, causal{} & sink{.logits = logits});
    for (index_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(weights.data()[i]), expected.weights.data()[i], 1e-6);
    }
  }
}

TEST(Sink, ThatIsNoNumberPoisonsItsHead) {
  for_each_type([]<class T>(T) {
    for (float logit : {static_cast<float>(not_a_number), static_cast<float>(infinity)}) {
      const std::vector<float> logits = {0, logit};
      for (index_t rows : {1, 20}) {
        const auto found = means<T>(2, rows, values_of<T>({5, 5}), sink{.logits = logits});
        for (index_t i = 0; i < 2 * rows; ++i) {
          EXPECT_EQ(std::isnan(static_cast<double>(found.out.data()[i])), i >= rows);
          EXPECT_EQ(std::isnan(found.lse.data()[i]), i >= rows);
        }
        const std::vector<float> alone = {logit};
        EXPECT_TRUE(std::isnan(means<T>(1, rows, values_of<T>({5, 5}), sink{.logits = alone}).lse.data()[0]));
      }
    }
  });
}

TEST(Sink, MeansOfValuesWhoseSumOverflows) {
  for_each_type([]<class T>(T) {
    const double large = static_cast<double>((std::numeric_limits<accumulate_of<T>>::max)()) * 0.75;
    const double most = element_kind_of<T> == element_kind::float16 ? 60000 : rounded<T>(large);
    const std::vector<float> logits = {0};
    for (index_t rows : {1, 20}) {
      const auto found = means<T>(1, rows, values_of<T>({most, most, most, most}), sink{.logits = logits});
      for (index_t i = 0; i < rows; ++i) {
        EXPECT_NEAR(static_cast<double>(found.out.data()[i]) / most, 0.8, tolerance<T>());
      }
    }
  });
}

TEST(Sink, LogitsAtTheEndsOfTheRange) {
  for_each_type([]<class T>(T) {
    const float most = (std::numeric_limits<float>::max)();
    for (index_t rows : {1, 20}) {
      for (double scale : {1.0, 1e-3, 1e-30}) {
        const std::vector<float> low = {-most}, high = {most};
        const std::size_t count = static_cast<std::size_t>(rows);
        expect_values(means<T>(1, rows, values_of<T>({1, 3}), sink{.logits = low}, {.scale = scale}).out,
                      std::vector<double>(count, 2));
        const auto found = means<T>(1, rows, values_of<T>({1, 3}), sink{.logits = high}, {.scale = scale});
        expect_values(found.out, std::vector<double>(count, 0));
        EXPECT_EQ(found.lse.data()[0], most);
      }
    }
  });
}

}  // namespace
