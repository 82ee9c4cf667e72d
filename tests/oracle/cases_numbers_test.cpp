// Public fault reports about extreme numbers, precision and repeatability, with the value that is right.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>

#include "heed/reference/forward.hpp"
#include "support/cases.hpp"
#include "support/judge.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Cases, D13_scores_of_half_live_in_float) {
  for (double size : {32.0, 256.0}) {
    tensor<half, 4> q({1, 1, 1, 128}), k({1, 1, 2, 128});
    for (index_t d = 0; d < 128; ++d) {
      q.data()[d] = k(0, 0, 0, d) = half(size);
      k(0, 0, 1, d) = half(-size);
    }
    const auto found = attend(q, k, values_of<half>({1, 2}));
    expect_values(found.out, {1});
    const double logit = size * size * std::sqrt(128.0);
    EXPECT_NEAR(found.lse(0, 0, 0), logit, logit * 1e-6);
    tensor<float, 4> out({1, 1, 1, 1});
    attention(q, k, values_of<half>({2, 1}), out, {.scale = -1.0});
    EXPECT_EQ(out(0, 0, 0, 0), 1);
  }
}

TEST(Cases, G4_rows_whose_best_score_is_very_low) {
  const double lse = -60000 + std::log1p(std::exp(-1.0)), first = 1 / (1 + std::exp(-1.0));
  const auto check = [&]<class T>(T) {
    const auto q = values_of<T>({1}), v = values_of<T>({1, 0});
    auto found = attend(q, values_of<T>({-60000, -60001}), v, no_mask{}, {.scale = 1.0});
    expect_values(found.out, {first});
    EXPECT_NEAR(static_cast<double>(found.lse(0, 0, 0)), lse, 0.002);
    found = attend(q, values_of<T>({-1e30, -1e30}), v, no_mask{}, {.scale = 1.0});
    expect_values(found.out, {0.5});
    for (double low : {-1e37, -3e38, 3e38}) {
      expect_values(attend(q, values_of<T>({low, low}), v, no_mask{}, {.scale = 1.0}).out, {0.5});
      expect_values(attend(q, values_of<T>({low, low}), v, causal{}, {.scale = 1.0, .anchor = at_offset(5)}).out,
                    {0.5});
    }
  };
  check(float{});
  check(double{});
}

TEST(Cases, G4_low_scores_behind_a_mask) {
  // A hidden key's sentinel must lie below every number, in the first block and in later ones.
  for (index_t cut : {1, 128, 200}) {
    const index_t keys = 300;
    tensor<float, 4> k({1, 1, keys, 1});
    for (index_t j = 0; j < keys; ++j) k.data()[j] = -1e30f;
    tensor<bool, 1> keep({keys});
    for (index_t j = cut; j < keys; ++j) keep(j) = true;
    const auto found =
        attend(values_of<float>({1, 1}), k, counted_values<float>(keys), keep_mask(keep), {.scale = 1.0});
    expect_values(found.out, std::vector<double>(2, static_cast<double>(cut + keys - 1) / 2));
  }
}

TEST(Cases, G9_lse_is_a_natural_logarithm) {
  for_each_type([]<class T>(T) {
    for (index_t keys : {1, 2, 4, 31, 128, 129, 1000}) {
      expect_values(means<T>(1, 2, tensor<T, 4>({1, 1, keys, 1})).lse,
                    std::vector<double>(2, std::log(static_cast<double>(keys))));
    }
    const auto found = attend(values_of<T>({2}), values_of<T>({1, 3}), values_of<T>({0, 0}), no_mask{}, {.scale = 1.0});
    expect_values(found.lse, {6 + std::log1p(std::exp(-4.0))});
  });
}

TEST(Cases, G11_not_a_number_stays_in_its_row) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4});
    const auto found = attend(values_of<T>({not_a_number, 0}), tensor<T, 4>({1, 1, 3, 1}), v);
    expect_values(found.out, {not_a_number, 7.0 / 3});
    expect_values(found.lse, {not_a_number, std::log(3.0)});
    // In a key: every row that sees it, and with causal only those.
    const auto k = values_of<T>({0, not_a_number, 0});
    expect_values(attend(values_of<T>({0, 0}), k, v).out, {not_a_number, not_a_number});
    expect_values(attend(values_of<T>({0, 0, 0}), k, v, causal{}).out, {1, not_a_number, not_a_number});
    // In one element of a value: that column of the rows that see the key.
    tensor<T, 4> wide({1, 1, 3, 2});
    for (index_t i = 0; i < 6; ++i) wide.data()[i] = static_cast<T>(static_cast<double>(i));
    wide(0, 0, 1, 1) = static_cast<T>(not_a_number);
    expect_values(attend(tensor<T, 4>({1, 1, 3, 1}), tensor<T, 4>({1, 1, 3, 1}), wide, causal{}).out,
                  {0, 1, 1, not_a_number, 2, not_a_number});
  });
}

TEST(Cases, G11_not_a_number_in_every_position_of_a_tile) {
  // 100 rows and 300 keys: whichever row and block holds the NaN, no other row may change.
  const auto q = pattern<float>(31, 1, {1, 1, 100, 8}), k = pattern<float>(5, 20, {1, 1, 300, 8}),
             v = pattern<float>(7, 30, {1, 1, 300, 8});
  const auto clean = attend(q, k, v, causal{});
  random_source random(3);
  for (int turn = 0; turn < 60; ++turn) {
    const index_t row = random.between(0, 99), key = random.between(0, 299), dim = random.between(0, 7);
    auto bad_q = q, bad_k = k, bad_v = v;
    const auto which = turn % 3;
    const float bad = turn % 2 == 0 ? std::nanf("") : std::numeric_limits<float>::infinity();
    (which == 0 ? bad_q(0, 0, row, dim) : which == 1 ? bad_k(0, 0, key, dim) : bad_v(0, 0, key, dim)) = bad;
    const auto found = attend(bad_q, bad_k, bad_v, causal{});
    const auto expected = reference::solve(bad_q, bad_k, bad_v, causal{});
    for (index_t i = 0; i < 100; ++i) {
      const bool sees = which == 0 ? i == row : key <= i + 200;
      for (index_t d = 0; d < 8; ++d) {
        if (!sees) {
          ASSERT_EQ(found.out(0, 0, i, d), clean.out(0, 0, i, d)) << "turn " << turn << " row " << i;
        } else {
          ASSERT_EQ(std::isnan(found.out(0, 0, i, d)), std::isnan(expected.out(0, 0, i, d)))
              << "turn " << turn << " row " << i << " dim " << d;
          ASSERT_EQ(std::isinf(found.out(0, 0, i, d)), std::isinf(expected.out(0, 0, i, d)));
        }
      }
    }
  }
}

TEST(Cases, G12_an_infinite_score_gives_nan) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2});
    const auto found = attend(values_of<T>({1, 0.5}), values_of<T>({infinity, 0}), v, no_mask{}, {.scale = 1.0});
    expect_values(found.out, {not_a_number, not_a_number});
    expect_values(found.lse, {not_a_number, not_a_number});
    expect_values(attend(values_of<T>({-1}), values_of<T>({-infinity, 0}), v, no_mask{}, {.scale = 1.0}).out,
                  {not_a_number});
    // 0 * inf is NaN, as IEEE says.
    expect_values(attend(values_of<T>({0}), values_of<T>({infinity, 0}), v, no_mask{}, {.scale = 1.0}).out,
                  {not_a_number});
    // -inf alone weighs nothing.
    expect_values(attend(values_of<T>({1}), values_of<T>({-infinity, 0}), v, no_mask{}, {.scale = 1.0}).out, {2});
  });
}

TEST(Cases, G12_infinite_values_reach_the_rows_that_see_them) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, infinity, 2, -infinity});
    const tensor<T, 4> zeros({1, 1, 4, 1});
    expect_values(attend(zeros, zeros, v, causal{}).out, {1, infinity, infinity, not_a_number});
    // A weight that is 0 by underflow times an infinity is NaN; one that is hidden is nothing.
    const bool bits[] = {true, false, true, false};
    expect_values(attend(zeros, zeros, v, keep_mask(tensor_view<bool const, 1>(bits, {4}))).out, {1.5, 1.5, 1.5, 1.5});
  });
}

TEST(Cases, G12_a_mean_of_huge_values_does_not_overflow) {
  for_each_type([]<class T>(T) {
    const double huge = std::is_same_v<T, double> ? 1.5e308 : (std::is_same_v<T, half> ? 65000 : 3e38);
    const auto v = values_of<T>({huge, huge, huge, -huge});
    const double exact = static_cast<double>(v(0, 0, 0, 0));
    const auto found = means<T>(1, 4, v, causal{});
    for (index_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(static_cast<double>(found.out(0, 0, i, 0)) / exact, i < 3 ? 1 : 0.5, tolerance<T>()) << i;
    }
  });
}

TEST(Cases, G12_a_mean_of_the_largest_value_is_that_value) {
  for (index_t keys = 1; keys <= 40; ++keys) {
    tensor<float, 4> v({1, 1, keys, 1});
    tensor<double, 4> w({1, 1, keys, 1});
    for (index_t j = 0; j < keys; ++j) {
      v.data()[j] = -std::numeric_limits<float>::max();
      w.data()[j] = std::numeric_limits<double>::max();
    }
    EXPECT_NEAR(means<float>(1, 1, v).out(0, 0, 0, 0) / v.data()[0], 1.0f, 1e-6f) << keys;
    EXPECT_NEAR(means<double>(1, 1, w).out(0, 0, 0, 0) / w.data()[0], 1.0, 1e-14) << keys;
  }
}

TEST(Cases, G13_long_rows_of_half_are_summed_in_float) {
  for (index_t keys : {2048, 4096, 10000}) {
    tensor<half, 4> v({1, 1, keys, 1});
    tensor<bfloat16, 4> w({1, 1, keys, 1});
    for (index_t j = 0; j < keys; ++j) v.data()[j] = half(1), w.data()[j] = bfloat16(1);
    expect_values(means<half>(1, 1, v).out, {1});
    EXPECT_EQ(static_cast<float>(means<half>(1, 1, v).out(0, 0, 0, 0)), 1.0f);
    EXPECT_EQ(static_cast<float>(means<bfloat16>(1, 3, w).out(0, 0, 2, 0)), 1.0f);
  }
}

TEST(Cases, G15_bfloat16_is_judged_on_its_rounded_inputs) {
  const auto exact = [](index_t a, index_t b) {
    const auto rounded_once = pattern<bfloat16>(a, b, {1, 1, 65, 16}, 5);
    tensor<double, 4> wide({1, 1, 65, 16});
    for (index_t i = 0; i < wide.size(); ++i) wide.data()[i] = static_cast<double>(rounded_once.data()[i]);
    return wide;
  };
  const auto found = attend(pattern<bfloat16>(31, 1, {1, 1, 65, 16}, 5), pattern<bfloat16>(5, 20, {1, 1, 65, 16}, 5),
                            pattern<bfloat16>(7, 30, {1, 1, 65, 16}, 5), causal{});
  const verdict<float> judge(exact(31, 1), exact(5, 20), exact(7, 30), causal{}, {}, strictness::plain_loop);
  EXPECT_TRUE(judge.out(found.out.view()));
}

TEST(Cases, G17_weights_that_are_subnormal_count_as_zero) {
  const auto found =
      attend(values_of<float>({1}), values_of<float>({0, -95}), values_of<float>({0, 1e38}), no_mask{}, {.scale = 1.0});
  EXPECT_TRUE(found.out(0, 0, 0, 0) == 0 || std::fabs(found.out(0, 0, 0, 0) - 5.521e-4) < 1e-6);
  // Where a weight is an ordinary number it counts, however small.
  const auto small_weight =
      attend(values_of<float>({1}), values_of<float>({0, -80}), values_of<float>({0, 1e38}), no_mask{}, {.scale = 1.0});
  EXPECT_NEAR(small_weight.out(0, 0, 0, 0) / (1e38 * std::exp(-80.0)), 1, 1e-5);
}

TEST(Cases, K3_repeats_give_the_same_bits) {
  const auto q = pattern<float>(31, 1, {1, 8, 300, 32}, 2), k = pattern<float>(5, 20, {1, 1, 500, 32}, 2),
             v = pattern<float>(7, 30, {1, 1, 500, 32});
  const auto first = attend(q, k, v, causal{});
  for (int turn = 0; turn < 20; ++turn) {
    const auto again = attend(q, k, v, causal{}, {.threads = turn % 5});
    ASSERT_TRUE(same_bits(first.out, again.out)) << turn;
    ASSERT_TRUE(same_bits(first.lse, again.lse)) << turn;
  }
}

// The same bits among calls of few query rows, and among calls of more; rounding lies between.
TEST(Cases, K6_row_0_does_not_change_when_rows_are_added) {
  for_each_type([]<class T>(T) {
    for (index_t past : {0, 32, 150}) {
      attended<T> alone, first_of_many;
      for (index_t rows = 1; rows <= 60; rows += rows < 20 ? 1 : 10) {
        const index_t keys = past + rows;
        tensor<T, 4> q({1, 2, rows, 20}), k({1, 2, keys, 20}), v({1, 2, keys, 20});
        for (index_t h = 0; h < 2; ++h) {  // row i and key j are the same whatever their number
          for (index_t d = 0; d < 20; ++d) {
            const auto number = [&](index_t a, index_t row) {
              return static_cast<T>(static_cast<double>((a * (row * 41 + d * 3 + h * 11) + 7) % 97 - 48) / 16);
            };
            for (index_t i = 0; i < rows; ++i) q(0, h, i, d) = number(31, i);
            for (index_t j = 0; j < keys; ++j) k(0, h, j, d) = number(5, j), v(0, h, j, d) = number(7, j);
          }
        }
        auto found = attend(q, k, v, causal{});
        if (rows == 1) {
          alone = std::move(found);
          continue;
        }
        // Of sixteen lanes eight rows are few, or share them with columns.
        if (active_isa() == "v4" && !std::is_same_v<T, double> && rows > 4 && rows <= 8) continue;
        const bool few = rows <= 4;
        if (!few && first_of_many.out.size() == 0) {
          first_of_many = std::move(found);
          for (index_t h = 0; h < 2; ++h) {
            for (index_t d = 0; d < 20; ++d) {
              const double before = static_cast<double>(alone.out(0, h, 0, d));
              EXPECT_NEAR(static_cast<double>(first_of_many.out(0, h, 0, d)), before, 0.01) << rows;
            }
            EXPECT_NEAR(static_cast<double>(first_of_many.lse(0, h, 0)), static_cast<double>(alone.lse(0, h, 0)), 1e-5);
          }
          continue;
        }
        auto const& before = few ? alone : first_of_many;
        for (index_t h = 0; h < 2; ++h) {
          EXPECT_TRUE(same_bits(tensor_view<T const, 1>(&found.out(0, h, 0, 0), {20}),
                                tensor_view<T const, 1>(&before.out(0, h, 0, 0), {20})))
              << "past " << past << " rows " << rows;
          EXPECT_EQ(found.lse(0, h, 0), before.lse(0, h, 0)) << "past " << past << " rows " << rows;
        }
      }
    }
  });
}

TEST(Cases, L1_a_mask_costs_no_score_matrix) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is not what this test weighs";
#endif
#if defined(__OPTIMIZE__)
  const index_t length = 8192;
#else
  const index_t length = 4096;
#endif
  const auto q = pattern<float>(31, 1, {1, 2, length, 16}), k = pattern<float>(5, 20, {1, 1, length, 16});
  tensor<float, 4> out({1, 2, length, 16});
  const auto keep = bools({1, 1, 1, length}, [](index_t, index_t, index_t, index_t j) { return j % 3 != 0; });
  attention(q, k, k, out, causal{}, {.threads = 2});
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  attention(q, k, k, out, causal{} & keep_mask(keep), {.threads = 2});
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 * 1024)
      << "KiB";  // the scores would take 512 MiB, 128 for the shorter
}

}  // namespace
