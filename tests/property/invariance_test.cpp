// What may not change a single bit, and what may change no more than rounding does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/heed.hpp"
#include "heed/view/layout.hpp"
#include "support/all_layouts.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Part of a tensor: heads [first, first + count) of batch item b, and its first rows.
template <class T>
tensor_view<T const, 4> part(tensor<T, 4> const& x, index_t b, index_t first, index_t count, index_t row,
                             index_t rows) {
  return {&x(b, first, row, 0),
          {index_t{1}, count, rows, x.extent(3)},
          {x.stride(0), x.stride(1), x.stride(2), x.stride(3)}};
}
template <class A>
tensor_view<A const, 3> part3(tensor<A, 3> const& x, index_t b, index_t first, index_t count, index_t row,
                              index_t rows) {
  return {&x(b, first, row), {index_t{1}, count, rows}, {x.stride(0), x.stride(1), x.stride(2)}};
}

TEST(Invariance, BatchItemsAndHeadsDoNotKnowOfEachOther) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {20, 64, 129}) {
      auto q = random_tensor<T>({3, 8, 37, dim}, 1), k = random_tensor<T>({3, 2, 150, dim}, 2),
           v = random_tensor<T>({3, 2, 150, dim}, 3);
      for (index_t d = 0; d < dim; ++d) k(1, 0, 7, d) = static_cast<T>(30 * static_cast<double>(k(1, 0, 7, d)));
      const auto whole = attend(q, k, v, causal{});
      for (index_t b = 0; b < 3; ++b) {
        const auto alone =
            attend(part(q, b, 0, 8, 0, 37), part(k, b, 0, 2, 0, 150), part(v, b, 0, 2, 0, 150), causal{});
        EXPECT_TRUE(same_bits(part(whole.out, b, 0, 8, 0, 37), alone.out.view()));
        EXPECT_TRUE(same_bits(part3(whole.lse, b, 0, 8, 0, 37), alone.lse.view()));
        for (index_t h = 0; h < 8; h += 3) {
          const auto head =
              attend(part(q, b, h, 1, 0, 37), part(k, b, h / 4, 1, 0, 150), part(v, b, h / 4, 1, 0, 150), causal{});
          EXPECT_TRUE(same_bits(part(whole.out, b, h, 1, 0, 37), head.out.view()));
        }
      }
    }
  });
}

/// A call of few rows runs on other kernels than one of many; among the calls of either kind, rows do not know of each
/// other.
TEST(Invariance, RowsDoNotKnowOfEachOther) {
  for_each_type([]<class T>(T) {
    for (index_t rows : {9, 16, 33, 48, 49, 97, 150}) {
      const auto q = random_tensor<T>({1, 3, 150, 33}, 4), k = random_tensor<T>({1, 1, 200, 33}, 5),
                 v = random_tensor<T>({1, 1, 200, 20}, 6);
      const auto whole = attend(q, k, v, causal{}, {.anchor = at_offset(30)});
      for (index_t first : {index_t{0}, (150 - rows) / 2, 150 - rows}) {
        const auto some = attend(part(q, 0, 0, 3, first, rows), k, v, causal{}, {.anchor = at_offset(30 + first)});
        EXPECT_TRUE(same_bits(part(whole.out, 0, 0, 3, first, rows), some.out.view())) << rows << " from " << first;
        EXPECT_TRUE(same_bits(part3(whole.lse, 0, 0, 3, first, rows), some.lse.view())) << rows << " from " << first;
      }
    }
  });
}

TEST(Invariance, ThreadsChangeNothing) {
  for_each_type([]<class T>(T) {
    const std::vector<index_t> key_lengths{190, 0, 77}, query_lengths{130, 130, 1};
    const auto q = random_tensor<T>({3, 6, 130, 40}, 7), k = random_tensor<T>({3, 3, 190, 40}, 8),
               v = random_tensor<T>({3, 3, 190, 24}, 9);
    const auto rule = causal{} & lengths{.query = query_lengths, .key = key_lengths};
    const auto one = attend(q, k, v, rule, {.threads = 1});
    for (int threads : {0, 2, 3, 7, 64}) {
      const auto several = attend(q, k, v, rule, {.threads = threads});
      EXPECT_TRUE(same_bits(one.out, several.out)) << threads;
      EXPECT_TRUE(same_bits(one.lse, several.lse)) << threads;
    }
    const auto lone_q = random_tensor<T>({1, 1, 900, 64}, 10), lone_k = random_tensor<T>({1, 1, 500, 64}, 11);
    const auto lone = attend(lone_q, lone_k, lone_k, no_mask{}, {.threads = 1});
    for (int threads : {2, 3, 7}) {
      EXPECT_TRUE(same_bits(lone.out, attend(lone_q, lone_k, lone_k, no_mask{}, {.threads = threads}).out)) << threads;
    }
    const auto short_q = random_tensor<T>({3, 40, 8, 40}, 12), short_k = random_tensor<T>({3, 10, 500, 40}, 13);
    const auto together = attend(short_q, short_k, short_k, causal{}, {.threads = 1});
    for (int threads : {2, 3, 7}) {
      EXPECT_TRUE(same_bits(together.out, attend(short_q, short_k, short_k, causal{}, {.threads = threads}).out))
          << threads;
    }
  });
}

TEST(Invariance, LayoutsChangeNothing) {
  for_each_type([]<class T>(T) {
    for (const index_t rows : {8, 61}) expect_same_bits_in_all_layouts<T>({2, 4, 2, rows, 140, 24});
  });
}

TEST(Invariance, WhatElseIsAskedForChangesNothing) {
  for_each_type([]<class T>(T) {
    const auto q = random_tensor<T>({2, 2, 50, 32}, 15), k = random_tensor<T>({2, 2, 170, 32}, 16);
    const auto keep =
        bools({1, 1, 50, 170}, [](index_t, index_t, index_t i, index_t j) { return (i * 7 + j) % 5 != 0; });
    const auto rule = keep_mask(keep) & causal{};
    const auto plain = attention(q, k, k, rule);
    const auto with_lse = attend(q, k, k, rule);
    const auto [out, weights] = attention_with_weights(q, k, k, rule);
    EXPECT_TRUE(same_bits(plain, with_lse.out));
    EXPECT_TRUE(same_bits(plain, out));
    // `precise` says what it does: nothing, but where the bf16 dot product would run.
    const auto precise = attention(q, k, k, causal{} & keep_mask(keep), {.precise = true});
    const bool rounds = explain(q, k, k, rule).find("bf16_dot: on") != std::string::npos;
    EXPECT_EQ(explain(q, k, k, rule, {.precise = true}).find("bf16_dot: on"), std::string::npos);
    EXPECT_EQ(same_bits(plain, precise), !rounds);
    EXPECT_TRUE(same_bits(plain, attention(q, k, k, no_mask{} & rule & lengths{})));
    // Weights sum to 1, and times V they are out.
    for (index_t i = 0; i < 50; ++i) {
      double sum = 0, first = 0;
      for (index_t j = 0; j < 170; ++j) {
        const double weight = static_cast<double>(weights(1, 1, i, j));
        ASSERT_GE(weight, 0);
        if (!keep(0, 0, i, j) || j > i + 120) {
          ASSERT_EQ(weight, 0);
        }
        sum += weight;
        first += weight * static_cast<double>(k(1, 1, j, 0));
      }
      ASSERT_NEAR(sum, 1, 20 * tolerance<T>());
      ASSERT_NEAR(first, static_cast<double>(out(1, 1, i, 0)), 20 * tolerance<T>());
    }
  });
}

TEST(Invariance, ScaleMayMoveIntoTheQueryByPowersOfTwo) {
  const auto q = random_tensor<float>({1, 2, 70, 48}, 17), k = random_tensor<float>({1, 2, 90, 48}, 18);
  auto scaled = q;
  for (index_t i = 0; i < scaled.size(); ++i) scaled.data()[i] *= 0.25f;
  EXPECT_TRUE(
      same_bits(attention(q, k, k, causal{}, {.scale = 0.125}), attention(scaled, k, k, causal{}, {.scale = 0.5})));
  auto negative = q;
  for (index_t i = 0; i < negative.size(); ++i) negative.data()[i] *= -1.0f;
  EXPECT_TRUE(
      same_bits(attention(q, k, k, causal{}, {.scale = 0.3}), attention(negative, k, k, causal{}, {.scale = -0.3})));
  EXPECT_TRUE(same_bits(attention(q, k, k, {.scale = 0.0}), attention(tensor<float, 4>({1, 2, 70, 48}), k, k)));
}

TEST(Invariance, TheOrderOfKeysMattersOnlyByRounding) {
  for_each_type([]<class T>(T) {
    const index_t keys = 300;
    const auto q = random_tensor<T>({1, 1, 40, 16}, 19), k = random_tensor<T>({1, 1, keys, 16}, 20),
               v = random_tensor<T>({1, 1, keys, 16}, 21);
    random_source random(22);
    std::vector<index_t> order;
    for (index_t j = 0; j < keys; ++j) order.push_back(j);
    for (index_t j = keys; j > 1; --j) {
      std::swap(order[static_cast<std::size_t>(j - 1)], order[static_cast<std::size_t>(random.between(0, j - 1))]);
    }
    auto k2 = k, v2 = v;
    for (index_t j = 0; j < keys; ++j) {
      for (index_t d = 0; d < 16; ++d) {
        k2(0, 0, j, d) = k(0, 0, order[static_cast<std::size_t>(j)], d);
        v2(0, 0, j, d) = v(0, 0, order[static_cast<std::size_t>(j)], d);
      }
    }
    const auto one = attend(q, k, v), other = attend(q, k2, v2);
    for (index_t i = 0; i < one.out.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(one.out.data()[i]), static_cast<double>(other.out.data()[i]), tolerance<T>());
    }
    for (index_t i = 0; i < one.lse.size(); ++i) ASSERT_NEAR(one.lse.data()[i], other.lse.data()[i], 1e-5);
  });
}

TEST(Invariance, AConstantAddedToAllScoresMovesOnlyLse) {
  // One more dimension in which every key holds the same number adds the same to all scores of a row.
  const index_t keys = 200, dim = 16;
  const auto q = random_tensor<double>({1, 1, 30, dim}, 23), k = random_tensor<double>({1, 1, keys, dim}, 24);
  tensor<double, 4> q2({1, 1, 30, dim + 1}), k2({1, 1, keys, dim + 1});
  for (index_t i = 0; i < 30; ++i) {
    for (index_t d = 0; d < dim; ++d) q2(0, 0, i, d) = q(0, 0, i, d);
    q2(0, 0, i, dim) = static_cast<double>(i);
  }
  for (index_t j = 0; j < keys; ++j) {
    for (index_t d = 0; d < dim; ++d) k2(0, 0, j, d) = k(0, 0, j, d);
    k2(0, 0, j, dim) = 5;
  }
  const auto one = attend(q, k, k, causal{}, {.scale = 0.5}), other = attend(q2, k2, k, causal{}, {.scale = 0.5});
  for (index_t i = 0; i < 30; ++i) {
    EXPECT_NEAR(other.lse(0, 0, i) - one.lse(0, 0, i), 2.5 * static_cast<double>(i), 1e-12);
    for (index_t d = 0; d < dim; ++d) EXPECT_NEAR(one.out(0, 0, i, d), other.out(0, 0, i, d), 1e-12);
  }
}

}  // namespace
