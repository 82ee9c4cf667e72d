// 64-bit arithmetic that says when 64 bits are not enough.
#include "heed/base/index.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "heed/base/power_of_2.hpp"

namespace {

using namespace heed::detail;

TEST(Index, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(saturating_mul(3, 4), 12);
  EXPECT_EQ(saturating_mul(std::int64_t{1} << 32, std::int64_t{1} << 31), INT64_MAX);
  EXPECT_EQ(saturating_mul((std::int64_t{1} << 31) - 1, std::int64_t{1} << 32),
            INT64_MAX - (std::int64_t{1} << 32) + 1);
  EXPECT_EQ(saturating_add(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(saturating_add(INT64_MAX, -1), INT64_MAX - 1);
  EXPECT_EQ(magnitude(INT64_MIN), INT64_MAX);
  EXPECT_EQ(magnitude(-5), 5);
}

TEST(Index, WhatOverflowsBecomesTheNearestNumber) {
  const std::int64_t numbers[] = {INT64_MIN, INT64_MIN + 1,     INT64_MIN / 2 - 1, -7,       -1, 0, 1,
                                  7,         INT64_MAX / 2 + 1, INT64_MAX - 1,     INT64_MAX};
  for (std::int64_t a : numbers) {
    for (std::int64_t b : numbers) {
      std::int64_t result = 0;
      const bool sum_overflows = __builtin_add_overflow(a, b, &result);
      EXPECT_EQ(clamped_add(a, b), sum_overflows ? (b < 0 ? INT64_MIN : INT64_MAX) : result) << a << " + " << b;
      EXPECT_EQ(saturating_add(a, b), sum_overflows ? INT64_MAX : result) << a << " + " << b;
      const bool difference_overflows = __builtin_sub_overflow(a, b, &result);
      EXPECT_EQ(saturating_sub(a, b), difference_overflows ? (b < 0 ? INT64_MAX : INT64_MIN) : result)
          << a << " - " << b;
      const bool product_overflows = __builtin_mul_overflow(a, b, &result);
      EXPECT_EQ(saturating_mul(a, b), product_overflows ? INT64_MAX : result) << a << " * " << b;
    }
  }
}

TEST(Index, CeilDivDoesNotOverflow) {
  EXPECT_EQ(ceil_div(0, 7), 0);
  EXPECT_EQ(ceil_div(7, 7), 1);
  EXPECT_EQ(ceil_div(8, 7), 2);
  EXPECT_EQ(ceil_div(INT64_MAX, 2), (std::int64_t{1} << 62));
}

TEST(Index, DividesAsTheOperatorsDo) {
  for (std::int64_t a : {0, 1, 2, 3, 7, 15, 16, 17, 127, 128, 129, 1000}) {
    for (std::int64_t b : {1, 2, 3, 7, 16, 17, 128, 1001}) {
      EXPECT_EQ(divide(a, b).whole, a / b) << a << " / " << b;
      EXPECT_EQ(divide(a, b).rest, a % b) << a << " / " << b;
      EXPECT_EQ(ceil_div(a, b), a / b + (a % b != 0)) << a << " / " << b;
    }
    for (std::int64_t b : {1, 2, 16, 32, 128}) {
      EXPECT_EQ(div_pow2(a, b), a / b) << a << " / " << b;
      EXPECT_EQ(mod_pow2(a, b), a % b) << a << " / " << b;
      EXPECT_EQ(ceil_div_pow2(a, b), ceil_div(a, b)) << a << " / " << b;
      EXPECT_EQ(round_down_pow2(a, b), a / b * b) << a << " / " << b;
      EXPECT_EQ(round_up_pow2(a, b), ceil_div(a, b) * b) << a << " / " << b;
    }
  }
  EXPECT_EQ(ceil_div(INT64_MAX, 2), INT64_MAX / 2 + 1);
  EXPECT_EQ(div_pow2(-64, 2), -32);  // strides, where they are even
}

}  // namespace
