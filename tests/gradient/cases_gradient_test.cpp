// Public fault reports about masks, sinks, sizes and memory, as they meet gradients, with the value that is right.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/gradient_cases.hpp"
#include "support/guarded_memory.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(CasesGradient, A9_a_mask_beside_causal_is_not_dropped) {
  for_each_wide_type([]<class T>(T) {
    const bool bits[3][3] = {{true, true, true}, {false, true, true}, {true, false, true}};
    const auto keep = bools({1, 1, 3, 3}, [&](auto, auto, index_t i, index_t j) { return bits[i][j]; });
    const auto found = differentiate(zeros<T>(1, 3), zeros<T>(1, 3), values_of<T>({1, 2, 4}), values_of<T>({1, 1, 1}),
                                     keep_mask(keep) & causal{}, {.anchor = top_left});
    expect_values(found.dv, {1.5, 1, 0.5});
    expect_values(found.dq, {0, 0, 0});
    expect_values(found.dk, {0, 0, 0});
  });
}

TEST(CasesGradient, A10_what_is_hidden_is_never_touched) {
  for_each_type([]<class T>(T) {
    const auto q = values_of<T>({1}), k = values_of<T>({2, not_a_number}), v = values_of<T>({3, infinity});
    const bool bits[] = {true, false};
    const std::vector<index_t> one{1};
    const auto check = [&](auto const& rule, attention_options const& options) {
      const auto found = differentiate(q, k, v, values_of<T>({2}), rule, options);
      expect_values(found.dq, {0});
      expect_values(found.dk, {0, 0});
      expect_values(found.dv, {2, 0});
    };
    check(keep_mask(tensor_view<bool const, 1>(bits, {2})), {.scale = 1.0});
    check(causal{}, {.scale = 1.0, .anchor = top_left});
    check(lengths{.key = one}, {.scale = 1.0});
  });
}

TEST(CasesGradient, D6_sinks_of_query_heads) {
  for_each_type([]<class T>(T) {
    const std::vector<float> logits = {0, 1, -1, 2};
    tensor<T, 4> v({1, 2, 1, 1});
    v.data()[0] = static_cast<T>(1), v.data()[1] = static_cast<T>(2);
    const auto found = differentiate(zeros<T>(4, 1), zeros<T>(2, 1), v, filled_with<T>({1, 4, 1, 1}, 1), sink{logits});
    const double wide = 4e-6 + (sizeof(T) == 2 ? tolerance<T>() : 0);  // out is rounded between the passes
    const double right[] = {-0.25, -0.1966119, -0.3932239, -0.2099872};
    for (std::size_t head = 0; head < 4; ++head) {
      EXPECT_NEAR(static_cast<double>(found.sinks[0][head]), right[head], wide) << head;
    }
    expect_values(found.dv, {0.5 + 0.2689414, 0.7310586 + 0.1192029}, 1e-6);
  });
}

TEST(CasesGradient, D7_a_hidden_row_with_a_sink) {
  for_each_wide_type([]<class T>(T) {
    const std::vector<float> logits = {0.7f};
    const bool none[] = {false};
    const auto rule = keep_mask(tensor_view<bool const, 1>(none, {1})) & sink{logits};
    const auto found = differentiate(zeros<T>(1, 1), zeros<T>(1, 1), values_of<T>({5}), values_of<T>({3}), rule);
    expect_values(found.dq, {0});
    expect_values(found.dk, {0});
    expect_values(found.dv, {0});
    EXPECT_EQ(found.sinks[0][0], 0);
    // lse is the sink there, and its loss the sink's.
    tensor<accumulate_of<T>, 3> d_lse({1, 1, 1});
    d_lse(0, 0, 0) = 2;
    const auto of_lse =
        differentiate(zeros<T>(1, 1), zeros<T>(1, 1), values_of<T>({5}), values_of<T>({3}), rule, {}, d_lse);
    EXPECT_NEAR(static_cast<double>(of_lse.sinks[0][0]), 2, 1e-6);
    expect_values(of_lse.dq, {0});
  });
}

TEST(CasesGradient, D12_both_passes_drop_the_same) {
  for_each_type([]<class T>(T) {
    for (index_t n : {5, 70, 130}) {
      tensor<T, 4> one({1, 1, n, n});
      for (index_t i = 0; i < n; ++i) one(0, 0, i, i) = static_cast<T>(1);
      const tensor<T, 4> zero({1, 1, n, 1});
      index_t kept_count = 0;
      for (int threads : {1, 3}) {
        const attention_options options{.drop = {.p = 0.3, .seed = 7, .offset = 11}, .threads = threads};
        const auto kept = attend(zero, zero, one, no_mask{}, options);
        const auto found = differentiate_saved(zero, zero, one, kept, one, no_mask{}, options);
        const double scale = 0.7 * static_cast<double>(n);
        for (index_t i = 0; i < n; ++i) {
          for (index_t j = 0; j < n; ++j) {
            const double right = dropout_keeps(options.drop, 0, 0, i, j) ? 1 : 0;
            ASSERT_NEAR(static_cast<double>(kept.out(0, 0, i, j)) * scale, right, 4 * tolerance<T>()) << i << " " << j;
            ASSERT_NEAR(static_cast<double>(found.dv(0, 0, j, i)) * scale, right, 4 * tolerance<T>()) << i << " " << j;
            kept_count += threads == 1 && right == 1;
          }
        }
      }
      const double total = static_cast<double>(n * n);
      EXPECT_NEAR(static_cast<double>(kept_count), 0.7 * total, 5 * std::sqrt(0.21 * total)) << n;
    }
  });
}

TEST(CasesGradient, G1_rows_that_see_nothing) {
  for_each_wide_type([]<class T>(T) {
    const auto q = values_of<T>({1, 2}), k = values_of<T>({1, 2, 3}), v = values_of<T>({1, 2, 4});
    const auto check = [&](auto const& rule, attention_options const& options = {}) {
      const auto found = differentiate(q, k, v, filled_with<T>({1, 1, 2, 1}, 1), rule, options);
      EXPECT_EQ(static_cast<double>(found.dq.data()[0]), 0);
      for (auto const* each : {&found.dq, &found.dk, &found.dv}) {
        for (index_t i = 0; i < each->size(); ++i) EXPECT_TRUE(std::isfinite(static_cast<double>(each->data()[i])));
      }
      return found;
    };
    const auto keep = bools({1, 1, 2, 3}, [](auto, auto, index_t i, index_t) { return i == 1; });
    check(keep_mask(keep));
    tensor<float, 2> terms({2, 3});
    for (index_t j = 0; j < 3; ++j) terms(0, j) = -static_cast<float>(infinity);
    const auto biased = check(bias(terms));
    for (index_t j = 0; j < 3; ++j) EXPECT_EQ(biased.biases[0](0, 0, 0, j), 0);
    check(causal{}, {.anchor = at_offset(-1)});
    const std::vector<index_t> none{0};
    expect_all(check(lengths{.key = none}).dk, 0);
  });
}

TEST(CasesGradient, H3_a_bias_whose_rows_lie_far_apart) {
  sparse_memory memory(((std::size_t{1} << 32) + 16) * sizeof(float));
  if (!memory.reserved()) GTEST_SKIP() << "this system does not reserve that much address space";
  const index_t stride = index_t{1} << 31;
  float* const terms = memory.as<float>();
  const float hidden = -static_cast<float>(infinity);
  terms[1] = terms[stride] = terms[2 * stride] = hidden;
  const bias far_apart(tensor_view<float const, 2>(terms, {3, 2}, {stride, index_t{1}}));
  const auto found = differentiate(zeros<float>(1, 3), zeros<float>(1, 2), values_of<float>({1, 3}),
                                   values_of<float>({1, 1, 1}), far_apart);
  expect_values(found.dq, {0, 0, 0});
  expect_values(found.dk, {0, 0});
  expect_values(found.dv, {1, 2});
  expect_all(found.biases[0], 0);

  // And its gradient as far apart as the bias.
  sparse_memory place(((std::size_t{1} << 32) + 16) * sizeof(float));
  if (!place.reserved()) GTEST_SKIP() << "this system does not reserve that much address space";
  const tensor_view<float, 2> d_bias(place.as<float>(), {3, 2}, {stride, index_t{1}});
  tensor<float, 2> visible({3, 2});
  const tensor<float, 2> q({3, 1}), k({2, 1});
  tensor<float, 2> v({2, 1}), out({3, 1});
  tensor<float, 1> lse({3});
  v(0, 0) = 1, v(1, 0) = 3;
  attention(q, k, v, into(out).lse(lse), bias(visible));
  tensor<float, 2> d_out({3, 1});
  for (index_t i = 0; i < 3; ++i) d_out(i, 0) = static_cast<float>(1 + i);
  attention_backward(q, k, v, saved(out, lse), d_out, gradients(nullptr, nullptr, nullptr).bias(d_bias), bias(visible));
  for (index_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(d_bias(i, 0), -0.5 * static_cast<double>(1 + i), 1e-6);
    EXPECT_NEAR(d_bias(i, 1), 0.5 * static_cast<double>(1 + i), 1e-6);
  }
}

TEST(CasesGradient, H5_keys_and_their_gradients_beyond_two_to_the_31) {
  const index_t stride = (index_t{1} << 31) + 16;
  sparse_memory keys(static_cast<std::size_t>(stride + 16) * 4), d_keys(static_cast<std::size_t>(stride + 16) * 4);
  if (!keys.reserved() || !d_keys.reserved()) GTEST_SKIP() << "this system does not reserve that much address space";
  const tensor_view<float, 2> k(keys.as<float>(), {2, 1}, {stride, index_t{1}}),
      dk(d_keys.as<float>(), {2, 1}, {stride, index_t{1}});
  tensor<float, 2> q({1, 1}), out({1, 1}), d_out({1, 1}), dq({1, 1}), dv({2, 1});
  tensor<float, 1> lse({1});
  q(0, 0) = d_out(0, 0) = 2;
  tensor<float, 2> v({2, 1});
  v(0, 0) = 1, v(1, 0) = 3;
  attention(q, k, v, into(out).lse(lse));
  attention_backward(q, k, v, saved(out, lse), d_out, gradients(dq, dk, dv));
  EXPECT_NEAR(dk(0, 0), -2, 1e-6);  // 0.5 * (2 * 1 - 2 * 2) * 2
  EXPECT_NEAR(dk(1, 0), 2, 1e-6);
  EXPECT_NEAR(dv(1, 0), 1, 1e-6);
}

TEST(CasesGradient, J2_lengths_of_zero) {
  for_each_wide_type([]<class T>(T) {
    for (index_t rows : {0, 3}) {
      for (index_t keys : {0, 3}) {
        const tensor<T, 4> q({7, 7, rows, 7}), d_out({7, 7, rows, 5});
        const tensor<T, 4> k({7, 7, keys, 7}), v({7, 7, keys, 5});
        const auto check = [&](auto const& rule) {
          const auto found = differentiate(q, k, v, d_out, rule);
          expect_all(found.dq, 0), expect_all(found.dk, 0), expect_all(found.dv, 0);
        };
        check(no_mask{});
        check(causal{});
      }
    }
  });
}

TEST(CasesGradient, J5_addresses_are_aligned_for_the_element_only) {
  for_each_wide_type([]<class T>(T) {
    for (index_t dim : {7, 16}) {
      const auto q = random_tensor<T>({1, 2, 70, dim}, 8), k = random_tensor<T>({1, 2, 90, dim}, 9),
                 d_out = random_tensor<T>({1, 2, 70, dim}, 10);
      const auto aligned = differentiate(q, k, k, d_out, causal{});
      const auto kept = attend(q, k, k, causal{});
      for (index_t shift : {1, 3, 7}) {
        std::vector<std::vector<T>> memory(7);
        std::size_t next = 0;
        const auto shifted = [&](tensor<T, 4> const& from, index_t by) {
          std::vector<T>& own = memory[next++];
          own.assign(static_cast<std::size_t>(from.size() + 8), static_cast<T>(not_a_number));
          for (index_t i = 0; i < from.size(); ++i) own[static_cast<std::size_t>(i + by)] = from.data()[i];
          return tensor_view<T, 4>(own.data() + by, {1, 2, from.extent(2), dim});
        };
        const auto sq = shifted(q, shift), sk = shifted(k, 8 - shift), so = shifted(kept.out, shift),
                   sd = shifted(d_out, 8 - shift), dq = shifted(q, 8 - shift), dk = shifted(k, shift),
                   dv = shifted(k, shift);
        attention_backward(sq, sk, sk, saved(so, kept.lse), sd, gradients(dq, dk, dv), causal{});
        EXPECT_TRUE(same_bits(dq, aligned.dq.view())) << dim << " " << shift;
        EXPECT_TRUE(same_bits(dk, aligned.dk.view())) << dim << " " << shift;
        EXPECT_TRUE(same_bits(dv, aligned.dv.view())) << dim << " " << shift;
      }
    }
  });
}

TEST(CasesGradient, K3_the_same_bits_every_time) {
  const auto q = random_tensor<float>({1, 8, 300, 32}, 1), d_out = random_tensor<float>({1, 8, 300, 32}, 2),
             k = random_tensor<float>({1, 1, 500, 32}, 3);
  const auto terms = random_tensor<float>({1, 8, 1, 500}, 4);
  const auto rule = causal{} & window{.left = 150} & bias(terms);
  const auto first = differentiate(q, k, k, d_out, rule);
  for (int turn = 0; turn < 10; ++turn) EXPECT_TRUE(same_gradients(first, differentiate(q, k, k, d_out, rule))) << turn;
}

}  // namespace
