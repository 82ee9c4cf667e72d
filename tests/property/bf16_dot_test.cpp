// bfloat16 throughout: where the processor's bf16 dot product is fast it runs, in pairs of keys and head dimensions;
// elsewhere the same calls are widened. What the contract says holds either way.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/reference/forward.hpp"
#include "support/bits.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"

namespace {

using heed::bfloat16;
using heed::index_t;
using heed::tensor;
using heed::test::has_line;
using heed::test::line_of_fast_bf16;
using heed::test::random_tensor;
using heed::test::same_bits;

template <class Query, class Key, class Value, class Out>
bool uses_dot(Query const& query, Key const& key, Value const& value, Out& out,
              heed::attention_options const& options) {
  return heed::explain(query, key, value, out, options).find("bf16_dot: on") != std::string::npos;
}

TEST(Bf16Dot, RunsWhereItIsFastAndItsRoundingIsHidden) {
  const auto narrow = random_tensor<bfloat16>({1, 2, 40, 16}, 1);
  const auto half = random_tensor<heed::half>({1, 2, 40, 16}, 1);
  const auto wide = random_tensor<float>({1, 2, 40, 16}, 1);
  tensor<bfloat16, 4> out({1, 2, 40, 16});
  tensor<float, 4> wide_out({1, 2, 40, 16});
  EXPECT_TRUE(has_line(heed::explain(narrow, narrow, narrow, out), line_of_fast_bf16()));
  EXPECT_FALSE(uses_dot(narrow, narrow, narrow, out, {.precise = true}));
  EXPECT_FALSE(uses_dot(narrow, narrow, narrow, out, {.scale = 1e38})) << "would not fit the exponent";
  EXPECT_FALSE(uses_dot(narrow, narrow, narrow, out, {.scale = -1e-38})) << "would be lost to underflow";
  EXPECT_FALSE(uses_dot(narrow, narrow, narrow, wide_out, {})) << "a float output would show the rounding";
  EXPECT_FALSE(uses_dot(narrow, narrow, half, out, {}));
  EXPECT_FALSE(uses_dot(narrow, wide, narrow, out, {}));
  EXPECT_FALSE(uses_dot(half, narrow, narrow, out, {}));
}

/// Odd numbers of keys, dimensions and first keys: every pair that has only one half.
TEST(Bf16Dot, OddEndsAreNeitherReadNorCounted) {
  for (index_t keys : {1, 2, 3, 7, 8, 9, 127, 128, 129, 257, 600}) {
    for (index_t dim : {1, 2, 3, 15, 16, 33}) {
      const index_t rows = keys > 500 ? 450 : 9;  // many rows: K and V are packed once; few would be decoded
      const auto query = random_tensor<bfloat16>({2, 2, rows, dim}, 11);
      const auto key = random_tensor<bfloat16>({2, 1, keys + 6, dim}, 12);
      const auto value = random_tensor<bfloat16>({2, 1, keys + 6, dim + 2}, 13);
      const std::vector<index_t> begins = {3, 2}, ends = {keys + 3, keys + 2};
      const heed::lengths inside{.key = ends, .key_start = begins};
      ASSERT_TRUE(has_line(heed::explain(query, key, value, inside), line_of_fast_bf16()));
      const auto clean = heed::attention(query, key, value, inside);
      auto dirty_key = key;
      auto dirty_value = value;
      for (index_t batch = 0; batch < 2; ++batch) {
        for (index_t row = 0; row < keys + 6; ++row) {
          if (row >= begins[static_cast<std::size_t>(batch)] && row < ends[static_cast<std::size_t>(batch)]) continue;
          for (index_t d = 0; d < dim; ++d) dirty_key(batch, 0, row, d) = bfloat16::from_bits(0x7fff);
          for (index_t d = 0; d < dim + 2; ++d) dirty_value(batch, 0, row, d) = bfloat16::from_bits(0xff80);
        }
      }
      EXPECT_TRUE(same_bits(clean, heed::attention(query, dirty_key, dirty_value, inside))) << keys << " x " << dim;
      const auto exact = heed::reference::solve(query, key, value, inside).out;
      for (index_t i = 0; i < clean.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(clean.data()[i]), exact.data()[i], 0.016)
            << keys << " x " << dim << " at " << i;
      }
    }
  }
}

/// Edges of tiles: sixteen keys, queries, dimensions; lines of sixteen words; three tiles of queries beside each other.
TEST(Bf16Dot, EdgesOfTilesAreRight) {
  for (index_t keys : {1, 15, 16, 17, 31, 32, 33, 59, 127, 129, 1025}) {
    for (index_t dim : {1, 2, 3, 15, 16, 17, 32, 33, 40, 64, 80, 100, 128, 256}) {
      const index_t rows = keys % 2 == 0 ? 16 : 9 + dim % 50, value_dim = keys == 59 ? dim + 3 : dim;
      if (keys > 1000 && dim % 16 == 1) continue;
      const auto query = random_tensor<bfloat16>({1, 4, rows, dim}, 61);  // two heads of queries for one of keys
      const auto key = random_tensor<bfloat16>({1, 2, keys, dim}, 62);
      const auto value = random_tensor<bfloat16>({1, 2, keys, value_dim}, 63);
      const auto full = heed::attention(query, key, value);
      const auto exact = heed::reference::solve(query, key, value, heed::no_mask{}).out;
      for (index_t i = 0; i < full.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(full.data()[i]), exact.data()[i], 0.016)
            << rows << " x " << keys << " x " << dim << " at " << i;
      }
      const heed::attention_options top{.anchor = heed::top_left};  // stretches of keys, also some that no row sees
      const auto below = heed::attention(query, key, value, heed::causal{}, top);
      const auto half = heed::reference::solve(query, key, value, heed::causal{}, top).out;
      for (index_t i = 0; i < below.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(below.data()[i]), half.data()[i], 0.016)
            << "causal " << rows << " x " << keys << " x " << dim << " at " << i;
      }
    }
  }
}

/// Where K and V lie, how a rule cuts them and how many threads there are changes no bit.
TEST(Bf16Dot, LayoutsStretchesAndThreadsChangeNoBit) {
  for (index_t dim : {20, 64}) {
    const index_t rows = 200, keys = 333;
    const auto query = random_tensor<bfloat16>({1, 2, rows, dim}, 71);
    const auto key = random_tensor<bfloat16>({1, 2, keys, dim}, 72),
               value = random_tensor<bfloat16>({1, 2, keys, dim}, 73);
    tensor<bfloat16, 4> wide_key({1, keys, 2, 2 * dim}), wide_value({1, keys, 2, 2 * dim});
    for (index_t head = 0; head < 2; ++head) {
      for (index_t row = 0; row < keys; ++row) {
        for (index_t d = 0; d < dim; ++d) {
          wide_key(0, row, head, 2 * d) = key(0, head, row, d);
          wide_value(0, row, head, 2 * d) = value(0, head, row, d);
        }
      }
    }
    const std::array<index_t, 4> extents = {1, 2, keys, dim};
    const std::array<index_t, 4> strides = {keys * 4 * dim, 2 * dim, 4 * dim, 2};
    const heed::tensor_view<bfloat16 const, 4> strided_key(wide_key.data(), extents, strides);
    const heed::tensor_view<bfloat16 const, 4> strided_value(wide_value.data(), extents, strides);
    const auto plain = heed::attention(query, key, value, heed::causal{}, {.threads = 1});
    EXPECT_TRUE(same_bits(plain, heed::attention(query, strided_key, strided_value, heed::causal{}, {.threads = 1})));
    EXPECT_TRUE(same_bits(plain, heed::attention(query, key, value, heed::causal{}, {.threads = 3})));
    // Twenty rows from the middle alone: other tiles and other stretches.
    tensor<bfloat16, 4> some({1, 2, 20, dim});
    for (index_t head = 0; head < 2; ++head) {
      for (index_t row = 0; row < 20; ++row) {
        for (index_t d = 0; d < dim; ++d) some(0, head, row, d) = query(0, head, 90 + row, d);
      }
    }
    const auto few = heed::attention(some, key, value, heed::causal{}, {.anchor = heed::at_offset(90 + keys - rows)});
    for (index_t head = 0; head < 2; ++head) {
      for (index_t row = 0; row < 20; ++row) {
        for (index_t d = 0; d < dim; ++d) ASSERT_EQ(few(0, head, row, d).bits, plain(0, head, 90 + row, d).bits) << row;
      }
    }
  }
}

TEST(Bf16Dot, HiddenNanChangesNothingAndVisibleNanStaysInItsRows) {
  const index_t rows = 70, keys = 300, dim = 20;
  const auto query = random_tensor<bfloat16>({1, 1, rows, dim}, 21);
  const auto key = random_tensor<bfloat16>({1, 1, keys, dim}, 22);
  auto value = random_tensor<bfloat16>({1, 1, keys, dim}, 23);
  const heed::causal rule;  // row i sees keys up to i + 230
  const auto clean = heed::attention(query, key, value, rule);
  for (index_t bad : {270, 271}) {  // both halves of a pair
    auto poisoned = value;
    poisoned(0, 0, bad, 3) = bfloat16(std::numeric_limits<float>::quiet_NaN());
    poisoned(0, 0, bad, 4) = bfloat16(std::numeric_limits<float>::infinity());
    const auto found = heed::attention(query, key, poisoned, rule);
    for (index_t row = 0; row < rows; ++row) {
      const bool sees = bad <= row + keys - rows;
      for (index_t d = 0; d < dim; ++d) {
        const float before = clean(0, 0, row, d), after = found(0, 0, row, d);
        if (sees && d == 3) {
          ASSERT_TRUE(std::isnan(after)) << row;
        } else if (sees && d == 4) {
          ASSERT_EQ(after, std::numeric_limits<float>::infinity()) << row;
        } else {
          ASSERT_EQ(before, after) << row << ", " << d;
        }
      }
    }
  }
}

TEST(Bf16Dot, ScalesOfEverySignMeanWhatTheySay) {
  const auto query = random_tensor<bfloat16>({1, 2, 60, 31}, 31);
  const auto key = random_tensor<bfloat16>({1, 2, 150, 31}, 32), value = random_tensor<bfloat16>({1, 2, 150, 31}, 33);
  for (double scale : {0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 1e-30, -1e-38, 1e-45, 1e-300, 7.0, -20.0}) {
    const heed::attention_options options{.scale = scale};
    tensor<bfloat16, 4> out({1, 2, 60, 31});
    tensor<float, 3> lse({1, 2, 60});
    heed::attention(query, key, value, heed::into(out).lse(lse), heed::causal{}, options);
    const auto exact = heed::reference::solve(query, key, value, heed::causal{}, options);
    for (index_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(out.data()[i]), exact.out.data()[i], 0.016) << scale << " at " << i;
    }
    for (index_t i = 0; i < lse.size(); ++i) {
      const double right = static_cast<double>(exact.lse.data()[i]);
      ASSERT_NEAR(static_cast<double>(lse.data()[i]), right, 3e-6 * (1 + std::fabs(right))) << scale << " at " << i;
    }
  }
}

/// 0 * NaN and 0 * infinity are NaN: a scale of 0 hides nothing.
TEST(Bf16Dot, NanInQueryOutlivesAScaleOfZero) {
  auto query = random_tensor<bfloat16>({1, 1, 3, 8}, 34);
  query(0, 0, 1, 5) = bfloat16(std::numeric_limits<float>::quiet_NaN());
  query(0, 0, 2, 6) = bfloat16(std::numeric_limits<float>::infinity());
  const auto key = random_tensor<bfloat16>({1, 1, 9, 8}, 35);
  const auto out = heed::attention(query, key, key, {.scale = 0.0});
  for (index_t d = 0; d < 8; ++d) {
    EXPECT_FALSE(std::isnan(static_cast<float>(out(0, 0, 0, d))));
    EXPECT_TRUE(std::isnan(static_cast<float>(out(0, 0, 1, d))));
    EXPECT_TRUE(std::isnan(static_cast<float>(out(0, 0, 2, d))));
  }
}

TEST(Bf16Dot, OneKeyComesBackExactlyAndHugeMeansAreFinite) {
  auto value = random_tensor<bfloat16>({1, 1, 9, 40}, 41);
  const auto query = random_tensor<bfloat16>({1, 1, 9, 40}, 42);
  const auto first = heed::attention(query, query, value, heed::causal{}, {.anchor = heed::top_left});
  for (index_t d = 0; d < 40; ++d) EXPECT_EQ(first(0, 0, 0, d).bits, value(0, 0, 0, d).bits);
  const bfloat16 huge = bfloat16::from_bits(0x7f7f);  // the largest finite one
  for (index_t i = 0; i < value.size(); ++i) value.data()[i] = huge;
  const auto mean = heed::attention(query, query, value);
  for (index_t i = 0; i < mean.size(); ++i) EXPECT_EQ(mean.data()[i].bits, huge.bits);
  for (index_t keys = 2; keys < 300; ++keys) {  // 1 / 13 rounds up, and others down
    const auto key = random_tensor<bfloat16>({1, 1, keys, 4}, 43);
    for (double size : {0.0, 2.0}) {
      tensor<bfloat16, 4> same({1, 1, keys, 3});
      for (index_t i = 0; i < same.size(); ++i) same.data()[i] = huge;
      const auto out = heed::attention(random_tensor<bfloat16>({1, 1, 2, 4}, 44, size), key, same);
      for (index_t i = 0; i < out.size(); ++i) ASSERT_EQ(out.data()[i].bits, huge.bits) << keys << " keys";
    }
  }
}

/// lse and weights are those of the probabilities before they are rounded.
TEST(Bf16Dot, WeightsAreNotRounded) {
  const auto query = random_tensor<bfloat16>({1, 1, 33, 16}, 51), key = random_tensor<bfloat16>({1, 1, 301, 16}, 52);
  tensor<bfloat16, 4> out({1, 1, 33, 16});
  tensor<float, 4> weights({1, 1, 33, 301});
  heed::attention(query, key, key, heed::into(out).weights(weights), heed::causal{});
  const auto exact = heed::reference::solve(query, key, key, heed::causal{}).weights;
  for (index_t i = 0; i < weights.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(weights.data()[i]), static_cast<double>(exact.data()[i]), 1e-6) << i;
  }
}

}  // namespace
