// Public fault reports about biases, slopes, soft caps and sinks, with the value that is right.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/cases.hpp"
#include "support/guarded_memory.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr double least = -static_cast<double>((std::numeric_limits<float>::max)());

TEST(CasesStages, A1_biases_broadcast_over_heads_or_batch_alone) {
  const auto v = pattern<double>(7, 30, {2, 2, 3, 4});
  const auto call = [&](axes<4> shape) {
    const auto terms = pattern<float>(13, 50, shape, 4.0);
    return attend(pattern<double>(31, 1, {2, 2, 2, 4}), pattern<double>(5, 20, {2, 2, 3, 4}), v, bias(terms)).out;
  };
  const double first[] = {0.369354, 0.478729, -0.3333811, -0.2240061};
  const double last[] = {-0.06488802, 0.04448698, 0.01646211, 0.1258371};
  const double sums[] = {1.25328898, 2.99869419, 9.17795715};
  const axes<4> shapes[] = {axes<4>(2, 1, 2, 3), axes<4>(1, 2, 2, 3), axes<4>(2, 2, 2, 3)};
  for (std::size_t shape = 0; shape < 3; ++shape) {
    const auto out = call(shapes[shape]);
    for (index_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(out.data()[i], first[i], 1e-7);
      EXPECT_NEAR(out.data()[28 + i], shape == 0 ? last[i] : out.data()[28 + i], 1e-7);
    }
    EXPECT_NEAR(s7<double>(out), sums[shape], 1e-8);
  }
}

TEST(CasesStages, A6_causal_holds_beside_a_zero_bias) {
  for_each_type([]<class T>(T) {
    const tensor<T, 2> zero({3, 3});
    expect_values(means<T>(1, 3, values_of<T>({1, 3, 8}), causal{} & bias(zero)).out, {1, 2, 4});
    expect_values(means<T>(1, 3, values_of<T>({1, 3, 8}), bias(zero) & causal{}, {.softcap = 2.0}).out, {1, 2, 4});
  });
}

TEST(CasesStages, A14_the_most_negative_number_in_front) {
  for_each_type([]<class T>(T) {
    for (index_t cut : {1, 16, 31, 32, 64, 127, 128, 129, 440}) {
      tensor<float, 1> terms({441});
      for (index_t j = 0; j < cut; ++j) terms(j) = static_cast<float>(least);
      for (index_t rows : {1, 3, 20}) {
        const auto found = means<T>(1, rows, counted_values<T>(441), bias(terms));
        const std::size_t count = static_cast<std::size_t>(rows);
        expect_values(found.out, std::vector<double>(count, static_cast<double>(cut + 440) / 2));
        expect_values(found.lse, std::vector<double>(count, std::log(static_cast<double>(441 - cut))));
      }
    }
  });
}

TEST(CasesStages, A15_planes_of_the_most_negative_number) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> q({1, 1, 1, 1}), k({1, 1, 3, 1});
    q.data()[0] = static_cast<T>(1);
    for (index_t j = 0; j < 3; ++j) k.data()[j] = static_cast<T>(static_cast<double>(-1 - j));
    tensor<float, 1> plane({3});
    for (index_t j = 0; j < 3; ++j) plane(j) = static_cast<float>(least);
    const auto v = values_of<T>({1, 2, 6});
    const auto once = attend(q, k, v, bias(plane), {.scale = 1.0});
    if (std::is_same_v<accumulate_of<T>, float>) {
      expect_values(once.out, {3});  // all scores are alike then
    }
    EXPECT_TRUE(std::isfinite(static_cast<double>(once.out.data()[0])));
    if (std::is_same_v<accumulate_of<T>, float>) {
      const auto twice = attend(q, k, v, bias(plane) & bias(plane), {.scale = 1.0});  // -inf: no key is left
      expect_values(twice.out, {0});
      EXPECT_EQ(twice.lse.data()[0], -infinity);
    }
    for (index_t j = 0; j < 3; ++j) plane(j) = -static_cast<float>(infinity);
    expect_values(attend(q, k, v, bias(plane), {.scale = 1.0}).out, {0});
  });
}

TEST(CasesStages, A16_a_bias_of_half_is_added_in_float) {
  tensor<half, 4> q({1, 1, 1, 1}), k({1, 1, 2, 1});
  q.data()[0] = half(4);
  k.data()[0] = half(-4), k.data()[1] = half(-8);
  tensor<half, 1> terms({2});
  terms(0) = terms(1) = half(-65504);
  const auto found = attend(q, k, values_of<half>({1, 3}), bias(terms), {.scale = 1.0});
  expect_values(found.out, {1});
  EXPECT_NEAR(static_cast<double>(found.lse.data()[0]), -65520, 0.01);
}

TEST(CasesStages, A18_numbers_are_a_bias_and_bools_a_mask) {
  const float numbers[] = {1, 1, 0, 0};
  const bool bools[] = {true, true, false, false};
  const auto v = values_of<float>({1, 1, 0, 0});
  expect_values(means<float>(1, 1, v, bias(tensor_view<float const, 1>(numbers, {4}))).out, {0.7310586}, 1e-7);
  expect_values(means<float>(1, 1, v, keep_mask(tensor_view<bool const, 1>(bools, {4}))).out, {1});
}

TEST(CasesStages, B15_distances_are_true_in_lse) {
  for_each_type([]<class T>(T) {
    const std::vector<float> slopes = {0.5f};
    const auto v = values_of<T>({1, 2, 4, 8});
    const auto found = means<T>(1, 1, v, alibi{.slopes = slopes});
    expect_values(found.out, {5.180798}, 1e-6);
    expect_values(found.lse, {0.7873387}, 1e-7);
    expect_values(means<T>(1, 1, v, alibi{.slopes = slopes}, {.anchor = at_offset(3)}).lse, {0.7873387}, 1e-7);
    expect_values(means<T>(1, 20, v, alibi{.slopes = slopes}, {.anchor = at_offset(3)}).out,
                  std::vector<double>(20, static_cast<double>(found.out.data()[0])), 1);  // one row of many
  });
}

TEST(CasesStages, B17_a_slice_of_the_heads_brings_its_slopes) {
  const auto q = pattern<float>(31, 1, {1, 8, 5, 4}), k = pattern<float>(5, 20, {1, 8, 5, 4}),
             v = pattern<float>(7, 30, {1, 8, 5, 4});
  const std::vector<float> slopes = alibi_slopes(8), upper(slopes.begin() + 4, slopes.end());
  const auto whole = attend(q, k, v, alibi{.slopes = slopes});
  const auto half_of = [](tensor<float, 4> const& x) {
    return tensor_view<float const, 4>(&x(0, 4, 0, 0), {1, 4, 5, 4});
  };
  const auto part = attend(half_of(q), half_of(k), half_of(v), alibi{.slopes = upper});
  for (index_t i = 0; i < part.out.size(); ++i) EXPECT_EQ(part.out.data()[i], whole.out.data()[80 + i]);
  for (index_t i = 0; i < part.lse.size(); ++i) EXPECT_EQ(part.lse.data()[i], whole.lse.data()[20 + i]);
}

TEST(CasesStages, D1_the_cap_comes_before_the_mask) {
  for_each_type([]<class T>(T) {
    const bool keep[] = {true, false};
    const keep_mask mask(tensor_view<bool const, 1>(keep, {2}));
    const float terms[] = {0, -static_cast<float>(infinity)};
    for (index_t rows : {1, 20}) {
      const std::vector<double> ones(static_cast<std::size_t>(rows), 1.0);
      expect_values(means<T>(1, rows, values_of<T>({1, 100}), mask, {.softcap = 1.0}).out, ones);
      expect_values(
          means<T>(1, rows, values_of<T>({1, 100}), bias(tensor_view<float const, 1>(terms, {2})), {.softcap = 1.0})
              .out,
          ones);
    }
  });
}

TEST(CasesStages, D3_the_cap_saturates) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> q({1, 1, 1, 1}), k({1, 1, 3, 1});
    q.data()[0] = static_cast<T>(1);
    k.data()[0] = static_cast<T>(5000), k.data()[1] = static_cast<T>(100), k.data()[2] = static_cast<T>(-5000);
    const auto found = attend(q, k, values_of<T>({1, 2, 4}), no_mask{}, {.scale = 1.0, .softcap = 50.0});
    expect_values(found.out, {1.142019}, 1e-6);
    expect_values(found.lse, {50.153173}, 1e-5);
  });
}

TEST(CasesStages, D5_a_cap_is_finite_and_above_zero) {
  const tensor<float, 2> x({2, 2});
  for (double cap : {0.0, -1.0, infinity, -infinity, not_a_number}) {
    EXPECT_EQ(validate(x, x, x, {.softcap = cap}), errc::bad_softcap) << cap;
    EXPECT_THROW((void)attention(x, x, x, {.softcap = cap}), error) << cap;
  }
  EXPECT_EQ(validate(x, x, x, {.softcap = 1e-300}), errc::ok);
}

TEST(CasesStages, D6_sinks_are_of_query_heads_and_have_no_value) {
  for_each_type([]<class T>(T) {
    const std::vector<float> logits = {0, 1, -1, 2};
    tensor<T, 4> v({1, 2, 1, 1});
    v.data()[0] = static_cast<T>(1), v.data()[1] = static_cast<T>(2);
    for (index_t rows : {1, 3, 20}) {
      const auto found = means<T>(4, rows, v, sink{.logits = logits});
      std::vector<double> out, lse;
      const double right[] = {0.5, 0.2689414, 1.462117, 0.2384058}, sums[] = {0.6931472, 1.313262, 0.3132617, 2.126928};
      for (int head = 0; head < 4; ++head) {
        out.insert(out.end(), static_cast<std::size_t>(rows), right[head]);
        lse.insert(lse.end(), static_cast<std::size_t>(rows), sums[head]);
      }
      expect_values(found.out, out, 1e-6);
      expect_values(found.lse, lse, 1e-6);
    }
  });
}

TEST(CasesStages, D7_a_hidden_row_with_a_sink) {
  for_each_type([]<class T>(T) {
    const std::vector<float> logits = {0.7f};
    const bool none[] = {false};
    const auto found =
        means<T>(1, 1, values_of<T>({5}), keep_mask(tensor_view<bool const, 1>(none, {1})) & sink{.logits = logits});
    expect_values(found.out, {0});
    expect_values(found.lse, {static_cast<double>(0.7f)});
  });
}

TEST(CasesStages, G1_a_row_whose_terms_are_all_minus_infinity) {
  for_each_type([]<class T>(T) {
    tensor<float, 2> terms({2, 3});
    for (index_t j = 0; j < 3; ++j) terms(0, j) = -static_cast<float>(infinity);
    const auto found = means<T>(1, 2, values_of<T>({1, 2, 4}), bias(terms));
    expect_values(found.out, {0, 7.0 / 3});
    expect_values(found.lse, {-infinity, std::log(3.0)});
  });
}

#define HEED_SKIP_UNLESS_RESERVED(memory) \
  if (!(memory).reserved()) GTEST_SKIP() << "this system does not reserve that much address space"

TEST(CasesStages, H1_bias_rows_beyond_two_to_the_31) {
  for (index_t stride : {index_t{1} << 31, (index_t{1} << 31) + 16}) {
    sparse_memory memory(static_cast<std::size_t>(2 * stride + 16) * sizeof(float));
    HEED_SKIP_UNLESS_RESERVED(memory);
    float* const terms = memory.as<float>();
    const float hidden = -static_cast<float>(infinity);
    const float rows[3][2] = {{0, hidden}, {hidden, 0}, {hidden, 0}};
    for (index_t i = 0; i < 3; ++i) {
      for (index_t j = 0; j < 2; ++j) terms[i * stride + j] = rows[i][j];
    }
    const bias far_apart(tensor_view<float const, 2>(terms, {3, 2}, {stride, index_t{1}}));
    expect_values(means<float>(1, 3, values_of<float>({1, 3}), far_apart).out, {1, 3, 3});
    expect_values(means<double>(1, 3, values_of<double>({1, 3}), far_apart & causal{}, {.anchor = at_offset(9)}).out,
                  {1, 3, 3});
  }
}

TEST(CasesStages, I14_scores_under_a_cap) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> q({1, 1, 1, 1}), k({1, 1, 3, 1});
    q.data()[0] = static_cast<T>(2);
    k.data()[0] = static_cast<T>(3), k.data()[1] = static_cast<T>(0), k.data()[2] = static_cast<T>(-1);
    expect_values(attend(q, k, values_of<T>({1, 2, 4}), no_mask{}, {.scale = 1.0, .softcap = 1.5}).out, {1.315473},
                  1e-6);
    expect_values(attend(q, k, values_of<T>({1, 2, 4}),
                         score_fn([](auto s, position) { return decltype(s)(1.5) * heed::tanh(s / decltype(s)(1.5)); }),
                         {.scale = 1.0})
                      .out,
                  {1.315473}, 1e-6);
  });
}

TEST(CasesStages, I16_distances_as_a_bias_and_as_slopes) {
  const auto q = pattern<double>(31, 1, {1, 1, 17, 3}), k = pattern<double>(5, 20, {1, 1, 17, 3}),
             v = pattern<double>(7, 30, {1, 1, 17, 3});
  tensor<float, 2> terms({17, 17});
  for (index_t i = 0; i < 17; ++i) {
    for (index_t j = 0; j < 17; ++j) terms(i, j) = static_cast<float>(i - j);
  }
  const std::vector<float> slopes = {-1};
  EXPECT_NEAR(s7<double>(attend(q, k, v, causal{} & bias(terms)).out), -9.45124092, 1e-8);
  EXPECT_NEAR(s7<double>(attend(q, k, v, alibi{.slopes = slopes} & causal{}).out), -9.45124092, 1e-8);
}

TEST(CasesStages, N1_a_bias_may_have_another_type_than_query) {
  const auto of = []<class B>(B) {
    tensor<B, 1> terms({2});
    terms(1) = static_cast<B>(1);
    return means<bfloat16>(1, 1, values_of<bfloat16>({0, 1}), bias(terms)).lse.data()[0];
  };
  EXPECT_EQ(of(float{}), of(half{}));
  EXPECT_EQ(of(float{}), of(double{}));
  EXPECT_EQ(of(float{}), of(bfloat16{}));
}

}  // namespace
