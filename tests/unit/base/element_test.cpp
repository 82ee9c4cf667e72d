// half and bfloat16: every bit pattern, every rounding.
#include "heed/base/element.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/random.hpp"

namespace {

using namespace heed;

/// The value of a binary16 pattern, worked out from its three fields.
double half_value(unsigned bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits >> 10) & 31u);
  const double mantissa = static_cast<double>(bits & 1023u);
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, exponent - 25));
}

/// The same for the upper half of a float.
double bfloat16_value(unsigned bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits >> 7) & 255u);
  const double mantissa = static_cast<double>(bits & 127u);
  if (exponent == 255) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(mantissa, -133) : std::ldexp(128.0 + mantissa, exponent - 134));
}

/// The nearest of two neighbouring patterns below infinity, ties to the even one. `value` is positive and finite.
template <class Value>
unsigned nearest(double value, unsigned largest, Value const& value_of) {
  unsigned low = 0, high = largest + 1;  // the pattern behind the largest is infinity, and stands for one more step
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (value_of(middle) <= value ? low : high) = middle;
  }
  const double below = value_of(low);
  const double step = low == largest ? below - value_of(largest - 1) : value_of(low + 1) - below;
  const double rest = value - below;
  return rest > step / 2 || (rest == step / 2 && (low & 1u) != 0) ? low + 1 : low;
}
unsigned nearest_half(double value) { return nearest(value, 0x7bffu, half_value); }
unsigned nearest_bfloat16(double value) { return nearest(value, 0x7f7fu, bfloat16_value); }

TEST(Half, EveryPatternHasItsValueAndReturns) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const half element = half::from_bits(static_cast<std::uint16_t>(bits));
    const float value = element;
    const double expected = half_value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(half(value)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
      ASSERT_EQ(half(value).bits, bits);
      ASSERT_EQ(half(expected).bits, bits);
    }
#if HEED_NATIVE_FLOAT16
    const auto native = std::bit_cast<native_float16>(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(native)) & 0xff800000u,
              std::bit_cast<std::uint32_t>(value) & 0xff800000u);
#endif
  }
}

TEST(Bfloat16, EveryPatternHasItsValueAndReturns) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const bfloat16 element = bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float value = element;
    const double expected = bfloat16_value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(bfloat16(value)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(bfloat16(value).bits, bits);
      ASSERT_EQ(bfloat16(expected).bits, bits);
    }
  }
}

/// Floats around every boundary of the narrow type: each value, each midpoint, and their neighbours.
template <class Narrow, class Value, class Nearest>
void check_rounding(Value const& value_of, unsigned largest, Nearest const& nearest_bits) {
  const auto check = [&](double exact) {
    const unsigned expected = nearest_bits(exact);
    ASSERT_EQ(Narrow(exact).bits, expected) << exact;
    ASSERT_EQ(Narrow(-exact).bits, expected | 0x8000u) << exact;
    const float as_float = static_cast<float>(exact);
    if (std::isinf(as_float)) return;
    ASSERT_EQ(Narrow(as_float).bits, nearest_bits(static_cast<double>(as_float))) << as_float;
  };
  for (unsigned bits = 0; bits <= largest; ++bits) {
    const double value = value_of(bits);
    const double step = bits == largest ? value - value_of(bits - 1) : value_of(bits + 1) - value;
    const double middle = value + step / 2;
    // Far closer to the tie than a float can tell: a double must not be rounded to float on its way.
    for (double nudge : {0.0, 1e-3, -1e-3, 1e-7, -1e-7, 1e-12, -1e-12}) check(middle + nudge * step);
    check(value + step * 0.25);
  }
}
TEST(Half, RoundsToNearestEvenOnce) { check_rounding<half>(half_value, 0x7bffu, nearest_half); }
TEST(Bfloat16, RoundsToNearestEvenOnce) { check_rounding<bfloat16>(bfloat16_value, 0x7f7fu, nearest_bfloat16); }

TEST(Half, RandomFloatsAndDoubles) {
  test::random_source random(1);
  for (int turn = 0; turn < 200000; ++turn) {
    const float any = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    const double wide = random.normal() * std::ldexp(1.0, static_cast<int>(random.between(-30, 17)));
    if (!std::isnan(any) && !std::isinf(any)) {
      const unsigned expected = std::fabs(any) > 70000.0f ? 0x7c00u : nearest_half(std::fabs(static_cast<double>(any)));
      ASSERT_EQ(half(any).bits & 0x7fffu, expected) << any;
      ASSERT_EQ(half(any).bits >> 15, std::signbit(any) ? 1u : 0u);
      ASSERT_EQ(bfloat16(any).bits & 0x7fffu, nearest_bfloat16(std::fabs(static_cast<double>(any)))) << any;
    }
    const unsigned expected = std::fabs(wide) > 70000.0 ? 0x7c00u : nearest_half(std::fabs(wide));
    ASSERT_EQ(half(wide).bits & 0x7fffu, expected) << wide;
    ASSERT_EQ(bfloat16(wide).bits & 0x7fffu, nearest_bfloat16(std::fabs(wide))) << wide;
  }
}

TEST(Half, OverflowInfinityAndNotANumber) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(half(65519.996).bits, 0x7bffu);
  EXPECT_EQ(half(65520.0).bits, 0x7c00u);
  EXPECT_EQ(half(1e300).bits, 0x7c00u);
  EXPECT_EQ(half(-1e300).bits, 0xfc00u);
  EXPECT_EQ(half(infinity).bits, 0x7c00u);
  EXPECT_EQ(half(5e-324).bits, 0u);
  EXPECT_EQ(half(-5e-324).bits, 0x8000u);
  EXPECT_EQ(bfloat16(1e300).bits, 0x7f80u);
  EXPECT_EQ(bfloat16(-infinity).bits, 0xff80u);
  EXPECT_EQ(bfloat16(3.4e38).bits, 0x7f80u);
  EXPECT_EQ(bfloat16(5e-324).bits, 0u);
  EXPECT_TRUE(std::isnan(static_cast<float>(half(std::nan("")))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::nan("")))));
  // A NaN whose payload lies only in the bits that are cut off must not become an infinity.
  const float quiet_low = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(static_cast<float>(half::from_bits(detail::float_to_half_bits(quiet_low)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16::from_bits(detail::float_to_bfloat16_bits(quiet_low)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(half(std::bit_cast<double>(0x7ff0000000000001u)))));
}

TEST(Half, ConversionsAreConstantExpressions) {
  static_assert(half(1.0f).bits == 0x3c00 && half(-2).bits == 0xc000 && half(0.1).bits == 0x2e66);
  static_assert(bfloat16(1.0f).bits == 0x3f80 && bfloat16(3).bits == 0x4040);
  static_assert(static_cast<float>(half::from_bits(1)) == 0x1p-24f);
  static_assert(!std::is_convertible_v<float, half> && std::is_convertible_v<half, float>);
  static_assert(!std::is_convertible_v<float, bfloat16> && std::is_convertible_v<bfloat16, float>);
  static_assert(std::is_trivial_v<half> && std::is_trivial_v<bfloat16>);
  static_assert(floating_element<half> && floating_element<double const> && !floating_element<bool> &&
                !floating_element<int> && !floating_element<long double>);
}

}  // namespace
