// Every spelling of a call, and that all of them compute the same.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/heed.hpp"
#include "heed/reference/forward.hpp"
#include "heed/view/layout.hpp"
#include "support/bits.hpp"
#include "support/pattern.hpp"

namespace {

using namespace heed;
using test::pattern;
using test::same_bits;

class Forms : public testing::Test {
 protected:
  tensor<float, 4> q = pattern<float>(31, 1, {2, 4, 9, 8}), k = pattern<float>(5, 20, {2, 2, 11, 8}),
                   v = pattern<float>(7, 30, {2, 2, 11, 5}), out{{2, 4, 9, 5}};
  tensor<float, 4> plain = attention(q, k, v), with_causal = attention(q, k, v, causal{}),
                   with_scale = attention(q, k, v, {.scale = 0.5}),
                   with_both = attention(q, k, v, causal{}, {.scale = 0.5});
};

TEST_F(Forms, TheyDiffer) {
  EXPECT_FALSE(same_bits(plain, with_causal));
  EXPECT_FALSE(same_bits(plain, with_scale));
  EXPECT_FALSE(same_bits(with_causal, with_both));
  const auto expected = reference::solve(q, k, v, causal{}, {.scale = 0.5});
  for (index_t i = 0; i < with_both.size(); ++i) EXPECT_NEAR(with_both.data()[i], expected.out.data()[i], 1e-6);
}

TEST_F(Forms, WritingIntoATensor) {
  attention(q, k, v, out);
  EXPECT_TRUE(same_bits(out, plain));
  attention(q, k, v, out, causal{});
  EXPECT_TRUE(same_bits(out, with_causal));
  attention(q, k, v, out, {.scale = 0.5});
  EXPECT_TRUE(same_bits(out, with_scale));
  attention(q, k, v, out, causal{}, {.scale = 0.5});
  EXPECT_TRUE(same_bits(out, with_both));
  attention(q, k, v, out, no_mask{}, {});
  EXPECT_TRUE(same_bits(out, plain));
  const attention_options options{.scale = 0.5, .anchor = bottom_right, .precise = true, .threads = 2};
  attention(q, k, v, out, causal{}, options);
  EXPECT_TRUE(same_bits(out, with_both));
  const auto rule = causal{} & no_mask{};
  attention(q, k, v, out, rule);
  EXPECT_TRUE(same_bits(out, with_causal));
}

TEST_F(Forms, ViewsOfEveryConstness) {
  const tensor_view<float, 4> view = q;
  const tensor_view<float const, 4> reading = k;
  tensor_view<float, 4> target = out;
  attention(view, reading, std::as_const(v), target);
  EXPECT_TRUE(same_bits(out, plain));
  const tensor_view<float, 4> constant_target = out;
  attention(q.view(), k.view(), v.view(), constant_target, causal{});
  EXPECT_TRUE(same_bits(out, with_causal));
  attention(view, reading, v, out.view(), {.scale = 0.5});
  EXPECT_TRUE(same_bits(out, with_scale));
  // A temporary tensor may be read within the call.
  attention(pattern<float>(31, 1, {2, 4, 9, 8}), k, v, out);
  EXPECT_TRUE(same_bits(out, plain));
}

TEST_F(Forms, IntoWithLseAndWeights) {
  tensor<float, 3> lse({2, 4, 9});
  tensor<double, 4> weights({2, 4, 9, 11});
  attention(q, k, v, into(out));
  EXPECT_TRUE(same_bits(out, plain));
  attention(q, k, v, into(out).lse(lse), causal{});
  EXPECT_TRUE(same_bits(out, with_causal));
  attention(q, k, v, into(out).weights(weights), {.scale = 0.5});
  EXPECT_TRUE(same_bits(out, with_scale));
  attention(q, k, v, into(out.view()).weights(weights.view()).lse(lse.view()), causal{}, {.scale = 0.5});
  EXPECT_TRUE(same_bits(out, with_both));
  const auto expected = reference::solve(q, k, v, causal{}, {.scale = 0.5});
  for (index_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse.data()[i], expected.lse.data()[i], 1e-6);
  for (index_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights.data()[i], expected.weights.data()[i], 1e-6);
  const outputs targets = into(out).lse(lse);
  attention(q, k, v, targets);
  EXPECT_TRUE(same_bits(out, plain));
}

TEST_F(Forms, AllocatingAndWithWeights) {
  static_assert(std::is_same_v<decltype(attention(q, k, v)), tensor<float, 4>>);
  static_assert(std::is_same_v<decltype(attention(std::declval<tensor<half, 2> const&>(), k, v)), tensor<half, 4>>);
  const auto [out1, weights1] = attention_with_weights(q, k, v);
  EXPECT_TRUE(same_bits(out1, plain));
  const auto [out2, weights2] = attention_with_weights(q, k, v, causal{});
  EXPECT_TRUE(same_bits(out2, with_causal));
  const auto [out3, weights3] = attention_with_weights(q, k, v, {.scale = 0.5});
  EXPECT_TRUE(same_bits(out3, with_scale));
  const auto [out4, weights4] = attention_with_weights(q, k, v, causal{}, {.scale = 0.5});
  EXPECT_TRUE(same_bits(out4, with_both));
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(weights4)>, tensor<float, 4>>);
  EXPECT_EQ(weights4.extent(3), 11);
  EXPECT_EQ(weights2(1, 3, 0, 3), 0);
  EXPECT_GT(weights1(1, 3, 0, 3), 0);
  EXPECT_GT(weights3(1, 3, 0, 3), 0);
}

TEST_F(Forms, RanksTwoThreeAndFour) {
  const tensor_view<float const, 3> q3(q.data(), {4, 9, 8}), k3(k.data(), {4, 11, 8}), v3(v.data(), {4, 11, 5});
  const tensor_view<float const, 2> q2(q.data(), {9, 8}), k2(k.data(), {11, 8}), v2(v.data(), {11, 5});
  tensor<float, 3> out3({4, 9, 5});
  tensor<float, 2> out2({9, 5}), lse3({4, 9});
  tensor<float, 1> lse2({9});
  attention(q3, k3, v3, into(out3).lse(lse3), causal{});
  attention(q2, k2, v2, into(out2).lse(lse2), causal{}, {.threads = 1});
  const auto back3 = attention(q3, k3, v3, causal{}), back2 = attention(q2, k2, v2, causal{});
  EXPECT_EQ(back3.extent(0), 4);
  EXPECT_EQ(back3.extent(1), 1);
  EXPECT_EQ(back2.extent(0), 1);
  EXPECT_EQ(back2.extent(2), 9);
  for (index_t i = 0; i < 9; ++i) {
    for (index_t d = 0; d < 5; ++d) {
      EXPECT_EQ(back3(2, 0, i, d), out3(2, i, d));
      EXPECT_EQ(back2(0, 0, i, d), out2(i, d));
      EXPECT_EQ(out2(i, d), with_causal(0, 0, i, d));
      EXPECT_EQ(out2(i, d), out3(0, i, d));
    }
    EXPECT_EQ(lse2(i), lse3(0, i));
  }
}

TEST_F(Forms, HeadsOfMergedTensors) {
  tensor<float, 3> x({2, 9, 24}), merged({2, 9, 24});
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>((31 * i + 1) % 97 - 48) / 64;
  attention(split_heads(x, 3), split_heads(x, 3), split_heads(x, 3), split_heads(merged, 3), causal{});
  const auto expected = reference::solve(split_heads(x, 3), split_heads(x, 3), split_heads(x, 3), causal{});
  for (index_t h = 0; h < 3; ++h) EXPECT_NEAR(merged(1, 7, h * 8 + 5), expected.out(1, h, 7, 5), 1e-6);
}

TEST_F(Forms, RulesJoinInAnyOrderAndNumber) {
  const std::vector<index_t> keys{11, 7};
  tensor<bool, 2> keep({9, 11}), drop({9, 11});
  for (index_t i = 0; i < keep.size(); ++i) keep.data()[i] = i % 4 != 0, drop.data()[i] = i % 7 == 0;
  const auto first = attention(q, k, v, causal{} & lengths{.key = keys} & keep_mask(keep) & drop_mask(drop));
  EXPECT_TRUE(
      same_bits(first, attention(q, k, v, drop_mask(drop) & (keep_mask(keep) & lengths{.key = keys}) & causal{})));
  EXPECT_TRUE(
      same_bits(first, attention(q, k, v, (drop_mask(drop) & keep_mask(keep)) & (causal{} & lengths{.key = keys}))));
  EXPECT_TRUE(same_bits(first, attention(q, k, v,
                                         no_mask{} & causal{} & causal{} & lengths{.key = keys} & keep_mask(keep) &
                                             keep_mask(keep) & drop_mask(drop) & lengths{})));
  const index_t plain_array[] = {11, 7};
  EXPECT_TRUE(same_bits(attention(q, k, v, lengths{.key = keys}), attention(q, k, v, lengths{.key = plain_array})));
  EXPECT_TRUE(same_bits(attention(q, k, v, lengths{.key = keys}),
                        attention(q, k, v, lengths{.key = std::span<index_t const>(keys)})));
}

TEST_F(Forms, ValidateAndExplainTakeTheSameArguments) {
  tensor<float, 3> lse({2, 4, 9});
  static_assert(noexcept(validate(q, k, v, out, causal{}, {.scale = 0.5})));
  EXPECT_EQ(validate(q, k, v), errc::ok);
  EXPECT_EQ(validate(q, k, v, causal{}), errc{});
  EXPECT_EQ(validate(q, k, v, {.scale = 0.5}), errc::ok);
  EXPECT_EQ(validate(q, k, v, causal{}, {.scale = 0.5}), errc::ok);
  EXPECT_EQ(validate(q, k, v, out), errc::ok);
  EXPECT_EQ(validate(q, k, v, into(out).lse(lse), causal{}), errc::ok);
  EXPECT_EQ(validate(q, k, v, out, {.scale = 0.5}), errc::ok);
  EXPECT_EQ(validate(q, k, v, out, causal{}, {.scale = 0.5}), errc::ok);
  for (std::string const& text : {explain(q, k, v), explain(q, k, v, causal{}), explain(q, k, v, {.scale = 0.5}),
                                  explain(q, k, v, causal{}, {.scale = 0.5}), explain(q, k, v, out),
                                  explain(q, k, v, into(out).lse(lse), causal{}), explain(q, k, v, out, {.scale = 0.5}),
                                  explain(q, k, v, out, causal{}, {.scale = 0.5})}) {
    for (char const* line : {"isa: ", "tile: ", "blocks: ", "elements evaluated: ", "bf16_dot: ", "threads: ",
                             "splits: ", "flops: ", "bytes: ", "scratch: "}) {
      EXPECT_NE(("\n" + text).find(std::string("\n") + line), std::string::npos) << line << " in " << text;
    }
    EXPECT_NE(text.find(std::string("isa: ") + std::string(active_isa())), std::string::npos);
  }
}

TEST_F(Forms, ExplainSaysWhatIsSkipped) {
  const tensor<float, 4> big({1, 1, 1024, 64});
  const auto numbers = [](std::string const& text) {
    long long skipped = -1, full = -1, partial = -1;
    const auto at = text.find("blocks: ");
    std::sscanf(text.c_str() + at, "blocks: skipped %lld, full %lld, partial %lld", &skipped, &full, &partial);
    return std::vector<long long>{skipped, full, partial};
  };
  const auto all = numbers(explain(big, big, big)), half_of_it = numbers(explain(big, big, big, causal{}));
  EXPECT_EQ(all[0], 0);
  EXPECT_EQ(all[2], 0);
  EXPECT_EQ(half_of_it[0] + half_of_it[1] + half_of_it[2], all[1]);
  EXPECT_GT(half_of_it[0], all[1] / 3);  // nearly half
  EXPECT_LT(half_of_it[2], all[1] / 4);  // only the diagonal is looked at
  const std::vector<index_t> none{0};
  EXPECT_EQ(numbers(explain(big, big, big, lengths{.key = none}))[0], all[1]);
  EXPECT_NE(explain(tensor<float, 4>({1, 1, 9, 8}), tensor<double, 4>({1, 1, 9, 8}), tensor<half, 4>({1, 1, 9, 8}))
                .find("rounded"),
            std::string::npos);
}

}  // namespace
