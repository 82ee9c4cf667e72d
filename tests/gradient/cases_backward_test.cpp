// Public fault reports about the backward pass itself, with the value that is right.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/gradient_cases.hpp"
#include "support/random.hpp"
#include "support/stored.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(CasesBackward, I1_one_hidden_row_poisons_nothing) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> d_out({1, 1, 3, 2});
    for (index_t i = 0; i < 6; ++i) d_out.data()[i] = static_cast<T>(static_cast<double>(1 + i % 2));
    const auto keep =
        bools({1, 1, 3, 3}, [](auto, auto, index_t i, index_t j) { return i == 2 || (i == 0 && j != 2); });
    const auto found = differentiate(pattern<T>(31, 1, {1, 1, 3, 2}), pattern<T>(5, 20, {1, 1, 3, 2}),
                                     pattern<T>(7, 30, {1, 1, 3, 2}), d_out, keep_mask(keep), {.scale = 2.0});
    const double narrow = sizeof(T) == 2 ? 3 * tolerance<T>() : 0;
    expect_values(found.dq, {0.05007552, 0.05007552, 0, 0, 0.1365868, 0.1365868}, eight_digits + narrow);
    expect_values(found.dk, {0.3739426, 0.003897645, -0.2393565, -0.07791997, -0.134586, 0.07402232},
                  eight_digits + narrow);
    expect_values(found.dv, {0.9243878, 1.848776, 0.7568153, 1.513631, 0.3187968, 0.6375937}, 5e-7 + narrow);
    EXPECT_EQ(static_cast<double>(found.dq(0, 0, 1, 0)), 0);
    EXPECT_EQ(static_cast<double>(found.dq(0, 0, 1, 1)), 0);
  });
}

TEST(CasesBackward, I2_only_the_bias_needs_a_gradient) {
  for_each_wide_type([]<class T>(T) {
    const tensor<T, 4> q = zeros<T>(1, 2), k = zeros<T>(1, 3);
    const auto v = values_of<T>({1, 2, 4}), d_out = values_of<T>({1, 1});
    const tensor<float, 2> terms({2, 3});
    const auto kept = attend(q, k, v, bias(terms));
    tensor<float, 2> d_bias({2, 3});
    attention_backward(q, k, v, saved(kept.out, kept.lse), d_out, gradients(nullptr, nullptr, nullptr).bias(d_bias),
                       bias(terms));
    const double right[] = {-0.4444444, -0.1111111, 0.5555556}, wide = 1e-6 + (sizeof(T) == 2 ? tolerance<T>() : 0);
    for (index_t i = 0; i < 2; ++i) {
      for (index_t j = 0; j < 3; ++j) EXPECT_NEAR(d_bias(i, j), right[j], wide) << i << " " << j;
    }
  });
}

TEST(CasesBackward, I4_keys_and_values_sum_over_their_group) {
  for_each_type([]<class T>(T) {
    const auto v = pattern<T>(7, 30, {1, 2, 3, 3});
    const auto found = differentiate(pattern<T>(31, 1, {1, 4, 2, 3}), pattern<T>(5, 20, {1, 2, 3, 3}), v,
                                     pattern<T>(11, 40, {1, 4, 2, 3}), no_mask{}, {.scale = 2.0});
    expect_s7(found.dq, 1.778978), expect_s7(found.dk, 0.464708973), expect_s7(found.dv, 0.772297144);
    expect_first(found.dk, {-0.06433246, 0.03146665, -0.0365478, -0.03050374});
    expect_first(found.dv, {-0.1555311, 0.06439251, 0.2843161, -0.1449527});
    for (index_t group : {3, 7}) {
      const auto q = pattern<T>(31, 1, {1, 2 * group, 2, 3}), d_out = pattern<T>(11, 40, {1, 2 * group, 2, 3});
      const auto k = pattern<T>(5, 20, {1, 2, 3, 3});
      const auto right = reference::solve_backward(q, k, v, d_out, no_mask{}, {.scale = 2.0});
      const auto many = differentiate(q, k, v, d_out, no_mask{}, {.scale = 2.0});
      for (index_t i = 0; i < right.dk.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(many.dk.data()[i]), right.dk.data()[i], 8 * tolerance<T>());
        EXPECT_NEAR(static_cast<double>(many.dv.data()[i]), right.dv.data()[i], 8 * tolerance<T>());
      }
    }
  });
}

TEST(CasesBackward, I6_value_dims_of_their_own) {
  for_each_wide_type([]<class T>(T) {
    const auto found = differentiate(pattern<T>(31, 1, {1, 1, 3, 128}), pattern<T>(5, 20, {1, 1, 4, 128}),
                                     pattern<T>(7, 30, {1, 1, 4, 96}), pattern<T>(11, 40, {1, 1, 3, 96}));
    expect_s7(found.dq, -0.386202684), expect_s7(found.dk, 0.108297228), expect_s7(found.dv, 6.46971067, eight_digits);
  });
}

TEST(CasesBackward, I7_more_rows_than_keys) {
  for_each_wide_type([]<class T>(T) {
    const index_t rows[] = {0, 76, 110, 256};
    const auto q = pattern<T>(31, 1, {1, 1, 256, 32}, 3), k = pattern<T>(5, 20, {1, 1, 3, 32}, 3),
               v = pattern<T>(7, 30, {1, 1, 3, 32}, 3);
    const auto ones = filled_with<T>({1, 1, 256, 32}, 1);
    const double rounding = sizeof(T) == 8 ? 1e-12 : 2e-4;  // of sums of 32 products, times K
    const auto expect_zeros = [&](tensor<T, 4> const& found) {
      for (index_t i = 0; i < found.size(); ++i) ASSERT_NEAR(static_cast<double>(found.data()[i]), 0, rounding) << i;
    };
    for (index_t item = 0; item < 3; ++item) {
      const index_t count = rows[item + 1] - rows[item];
      const auto part = [](tensor<T, 4> const& x, index_t row, index_t number) {
        return tensor_view<T const, 4>(&x(0, 0, row, 0), {1, 1, number, 32});
      };
      const auto found = differentiate(part(q, rows[item], count), part(k, item, 1), part(v, item, 1),
                                       part(ones, rows[item], count), causal{});
      expect_zeros(found.dq), expect_zeros(found.dk), expect_all(found.dv, 1);
    }
    std::vector<index_t> row_ids;
    for (index_t item = 0; item < 3; ++item) {
      row_ids.insert(row_ids.end(), static_cast<std::size_t>(rows[item + 1] - rows[item] - 1), -1);
      row_ids.push_back(item);
    }
    const std::vector<index_t> key_ids = {0, 1, 2};
    const auto packed = differentiate(q, k, v, ones, documents{.ids = key_ids, .query_ids = row_ids});
    expect_zeros(packed.dq), expect_zeros(packed.dk), expect_all(packed.dv, 1);
  });
}

/// E1's data, every operand and gradient in every layout.
TEST(CasesBackward, I9_I11_E1_layouts_of_d_out_and_of_gradients) {
  for_each_type([]<class T>(T) {
    const auto q = pattern<T>(31, 1, {2, 3, 5, 7}), k = pattern<T>(5, 20, {2, 3, 6, 7}),
               v = pattern<T>(7, 30, {2, 3, 6, 4}), d_out = pattern<T>(11, 40, {2, 3, 5, 4});
    const auto kept = attend(q, k, v);
    const auto plain = differentiate_saved(q, k, v, kept, d_out, no_mask{});
    expect_s7(plain.dq, -1.53757613), expect_s7(plain.dv, 6.6114172, eight_digits);
    expect_first(plain.dk, {0.01313746, 0.009854475, -0.01233902, 0.007826995});
    const auto in = [](tensor<T, 4> const& from, layout kind) {
      stored<T> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)}, kind);
      to.fill([&](index_t b, index_t h, index_t row, index_t d) { return from(b, h, row, d); });
      return to;
    };
    for (layout kind : output_layouts) {
      SCOPED_TRACE(name_of(kind));
      const auto sq = in(q, kind), sk = in(k, kind), sv = in(v, kind), so = in(kept.out, kind), sd = in(d_out, kind);
      stored<T> dq({2, 3, 5, 7}, kind), dk({2, 3, 6, 7}, kind), dv({2, 3, 6, 4}, kind);
      attention_backward(sq.view(), sk.view(), sv.view(), saved(so.view(), kept.lse), sd.view(),
                         gradients(dq.view(), dk.view(), dv.view()));
      EXPECT_TRUE(same_bits(dq.view(), plain.dq.view()));
      EXPECT_TRUE(same_bits(dk.view(), plain.dk.view()));
      EXPECT_TRUE(same_bits(dv.view(), plain.dv.view()));
      EXPECT_TRUE(dq.gaps_intact() && dk.gaps_intact() && dv.gaps_intact());
      // d_out alone
      attention_backward(q, k, v, saved(kept.out, kept.lse), sd.view(), gradients(dq.view(), dk.view(), dv.view()));
      EXPECT_TRUE(same_bits(dq.view(), plain.dq.view()));
    }
  });
}

TEST(CasesBackward, I14_the_factor_of_a_cap) {
  for_each_wide_type([]<class T>(T) {
    const auto q = values_of<T>({2}), k = values_of<T>({3, 0, -1}), v = values_of<T>({1, 2, 4}),
               far = values_of<T>({5000, 0, -5000}), one = values_of<T>({1});
    const attention_options options{.scale = 1.0, .softcap = 1.5};
    const double wide = 1e-7 + (sizeof(T) == 2 ? tolerance<T>() : 0);
    const auto found = differentiate(q, k, v, one, no_mask{}, options);
    expect_values(found.dq, {-0.03175827}, wide);
    expect_values(found.dk, {-0.0006589735, 0.2381656, 0.06153963}, wide);
    expect_values(found.dv, {0.7788667, 0.1739636, 0.04716978}, wide);
    const auto bits = bools({1, 1, 1, 3}, [](auto, auto, auto, index_t j) { return j != 1; });
    const auto masked = differentiate(q, k, v, one, keep_mask(bits), options);
    expect_values(masked.dq, {-0.03990011}, wide);
    expect_values(masked.dk, {-0.0004332041, 0, 0.07850061}, wide);
    EXPECT_EQ(static_cast<double>(masked.dk.data()[1]), 0);
    const auto saturated = differentiate(q, far, v, one, no_mask{}, options);
    EXPECT_NEAR(static_cast<double>(saturated.dk.data()[0]), 0, 1e-6);
    EXPECT_NEAR(static_cast<double>(saturated.dk.data()[2]), 0, 1e-6);
    for (index_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(static_cast<double>(saturated.dv.data()[i])));
    EXPECT_TRUE(std::isfinite(static_cast<double>(saturated.dq.data()[0])));
    // The same cap as a functor.
    const auto own = differentiate(q, k, v, one, score_fn([](auto s, position) { return 1.5f * heed::tanh(s / 1.5f); }),
                                   {.scale = 1.0});
    expect_values(own.dk, {-0.0006589735, 0.2381656, 0.06153963}, wide);
  });
}

TEST(CasesBackward, I15_a_loss_on_lse) {
  for_each_type([]<class T>(T) {
    tensor<accumulate_of<T>, 3> d_lse({1, 1, 1});
    d_lse(0, 0, 0) = 1;
    const double wide = 1e-6 + (sizeof(T) == 2 ? 5 * tolerance<T>() : 0);
    const auto found = differentiate(values_of<T>({1}), values_of<T>({1, 3}), values_of<T>({5, 7}), values_of<T>({1}),
                                     no_mask{}, {.scale = 1.0}, d_lse);
    expect_values(found.dq, {3.181568}, wide);
    expect_values(found.dk, {-0.09078425, 1.090784}, wide);
    expect_values(found.dv, {0.1192029, 0.8807971}, wide);
    const auto alone = differentiate(values_of<T>({0}), values_of<T>({1, 3}), values_of<T>({0, 0}), values_of<T>({0}),
                                     no_mask{}, {.scale = 1.0}, d_lse);
    expect_values(alone.dq, {2});
    expect_values(alone.dk, {0, 0});
  });
}

TEST(CasesBackward, I16_distances_as_a_bias_and_as_slopes) {
  const auto run = []<class T>(T, index_t n) {
    const auto q = pattern<T>(31, 1, {1, 1, n, 3}), k = pattern<T>(5, 20, {1, 1, n, 3}),
               v = pattern<T>(7, 30, {1, 1, n, 3}), d_out = pattern<T>(11, 40, {1, 1, n, 3});
    tensor<float, 2> terms({n, n});
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) terms(i, j) = static_cast<float>(i - j);
    }
    const std::vector<float> slopes = {-1};
    const auto biased = differentiate(q, k, v, d_out, causal{} & bias(terms)),
               sloped = differentiate(q, k, v, d_out, alibi{slopes} & causal{});
    const auto right = reference::solve_backward(q, k, v, d_out, alibi{slopes} & causal{});
    for (auto const* found : {&biased, &sloped}) {
      if (n == 17) {
        expect_s7(found->dq, 0.115475747), expect_s7(found->dk, -0.0819539745), expect_s7(found->dv, 0.153023391);
      }
      const double near_enough = sizeof(T) == 8 ? 1e-11 : 2e-4;  // dk[0] sums over all rows
      for (index_t i = 0; i < right.dq.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(found->dq.data()[i]), right.dq.data()[i], near_enough);
        ASSERT_NEAR(static_cast<double>(found->dk.data()[i]), right.dk.data()[i], near_enough);
        ASSERT_NEAR(static_cast<double>(found->dv.data()[i]), right.dv.data()[i], near_enough);
      }
    }
    // What the slopes get is what the biases get, times the distance.
    double sum = 0;
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j <= i; ++j)
        sum -= static_cast<double>(i - j) * static_cast<double>(biased.biases[0](0, 0, i, j));
    }
    EXPECT_NEAR(static_cast<double>(sloped.slopes[0][0]), sum, sizeof(T) == 8 ? 1e-9 : 1e-1) << n;
    EXPECT_NEAR(right.slopes[0][0], sum, sizeof(T) == 8 ? 1e-9 : 1e-1) << n;
  };
  for (index_t n : {17, 129, 1025}) run(float{}, n), run(double{}, n);
}

TEST(CasesBackward, I18_no_gradient_gives_no_gradient) {
  for_each_type([]<class T>(T) {
    const index_t n = 70;
    tensor<float, 2> terms({n, n});
    const float least = -(std::numeric_limits<float>::max)(), none = -std::numeric_limits<float>::infinity();
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) terms(i, j) = (i + j) % 3 == 0 ? none : (i + 2 * j) % 5 == 0 ? least : 0;
    }
    const std::vector<float> logits = {1};
    const auto check = [&](auto const& rule) {
      const auto found = differentiate(pattern<T>(31, 1, {1, 1, n, 5}), pattern<T>(5, 20, {1, 1, n, 5}),
                                       pattern<T>(7, 30, {1, 1, n, 4}), tensor<T, 4>({1, 1, n, 4}), rule);
      expect_all(found.dq, 0), expect_all(found.dk, 0), expect_all(found.dv, 0);
      for (auto const& each : found.biases) expect_all(each, 0);
      for (auto const& each : found.sinks) EXPECT_EQ(each[0], 0);
    };
    check(causal{} & bias(terms));
    check(causal{} & bias(terms) & sink{logits});
  });
}

TEST(CasesBackward, I20_batch_items_have_the_bits_of_calls_of_their_own) {
  for_each_wide_type([]<class T>(T) {
    for (index_t dim : {64, 128, 256}) {
      const index_t rows = 33;
      auto q = random_tensor<T>({3, 8, rows, dim}, 1), k = random_tensor<T>({3, 1, rows, dim}, 2);
      const auto v = random_tensor<T>({3, 1, rows, dim}, 3), d_out = random_tensor<T>({3, 8, rows, dim}, 4);
      for (index_t d = 0; d < dim; ++d) {
        k(1, 0, 7, d) = static_cast<T>(30 * static_cast<double>(k(1, 0, 7, d)));
        q(1, 3, 9, d) = static_cast<T>(30 * static_cast<double>(q(1, 3, 9, d)));
      }
      const std::vector<float> slopes = alibi_slopes(8);
      const auto rule = causal{} & window{.left = 20} & alibi{.slopes = slopes};
      const auto whole = differentiate(q, k, v, d_out, rule, {.threads = 1});
      for (index_t b = 0; b < 3; ++b) {
        const auto item = [&](tensor<T, 4> const& of) {
          return tensor_view<T const, 4>(&of(b, 0, 0, 0), {1, of.extent(1), rows, dim});
        };
        const auto alone = differentiate(item(q), item(k), item(v), item(d_out), rule, {.threads = 1});
        EXPECT_TRUE(same_bits(item(whole.dq), tensor_view<T const, 4>(alone.dq.view()))) << b;
        EXPECT_TRUE(same_bits(item(whole.dk), tensor_view<T const, 4>(alone.dk.view()))) << b;
        EXPECT_TRUE(same_bits(item(whole.dv), tensor_view<T const, 4>(alone.dv.view()))) << b;
      }
    }
  });
}

}  // namespace
