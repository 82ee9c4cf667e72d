// exp, log, tanh and their simple companions, for score functors: branch-free, so that a functor that calls them stays
// a vector loop on every instruction set.
#pragma once

#include <cstdint>
#include <type_traits>

#include "heed/base/config.hpp"

namespace heed {

namespace detail {

template <class Integer>
concept integer = std::is_integral_v<Integer>;
template <class Number>
concept number = std::is_arithmetic_v<Number>;
/// Two numbers that a common type holds without a negative one turning into a large one.
template <class Second, class First>
concept mixes_with = number<Second> &&(std::is_floating_point_v<First> || std::is_floating_point_v<Second> ||
                                       std::is_signed_v<First> == std::is_signed_v<Second>);
template <class Number>
inline constexpr bool is_real = std::is_same_v<Number, float> || std::is_same_v<Number, double>;

// What the functions below know of a floating-point format. Adding `rounder` to a number of moderate size leaves its
// nearest integer in the low bits of the sum, with the exponent's bias added; so a shift makes it a power of two.
template <class Real>
struct real_format;
template <>
struct real_format<float> {
  using bits = std::uint32_t;
  static constexpr int mantissa = 23;
  static constexpr bits bias = 127;
  static constexpr float rounder = 12582912.0f + 127.0f;
  static constexpr float counter = 8388608.0f;  // 2^mantissa
  static constexpr float least_normal = 0x1p-126f;
  static constexpr float infinity = __builtin_inff();
  static constexpr float ln2_high = 0.693359375f;  // few bits: its products with exponents are exact
  static constexpr float ln2_low = -0.000212194440054690583f;
  static constexpr float exp_floor = -87.33654475f;  // the logarithm of least_normal
  static constexpr float tanh_one = 10.0f;           // tanh is 1 from here on
};
template <>
struct real_format<double> {
  using bits = std::uint64_t;
  static constexpr int mantissa = 52;
  static constexpr bits bias = 1023;
  static constexpr double rounder = 6755399441055744.0 + 1023.0;
  static constexpr double counter = 4503599627370496.0;
  static constexpr double least_normal = 0x1p-1022;
  static constexpr double infinity = __builtin_inf();
  static constexpr double ln2_high = 0.6931471803691238164901733;
  static constexpr double ln2_low = 1.908214929270587816144e-10;
  static constexpr double exp_floor = -708.39641853226410622;
  static constexpr double tanh_one = 20.0;
};
template <class Real>
using bits_of = typename real_format<Real>::bits;

template <class Real>
inline constexpr bits_of<Real> sign_bit = bits_of<Real>(1) << (8 * sizeof(Real) - 1);

template <class Real>
HEED_FN constexpr Real magnitude_of(Real x) noexcept {
  return __builtin_bit_cast(Real, bits_of<Real>(__builtin_bit_cast(bits_of<Real>, x) & ~sign_bit<Real>));
}

/// `condition ? first : second`, but of values that are both there: a compiler makes a branch of the conditional, moves
/// what only one side needs into it, and may then not turn arithmetic that can raise a flag back into vectors.
template <class Real>
HEED_FN constexpr Real blend(bool condition, Real first, Real second) noexcept {
  using bits = bits_of<Real>;
  const bits mask = bits(0) - bits(condition);
  return __builtin_bit_cast(
      Real, bits((__builtin_bit_cast(bits, first) & mask) | (__builtin_bit_cast(bits, second) & ~mask)));
}

/// first + at * (second + at * (...)).
template <class Real>
HEED_FN constexpr Real horner(Real, Real last) noexcept {
  return last;
}
template <class Real, class... More>
HEED_FN constexpr Real horner(Real at, Real first, More... more) noexcept {
  return first + at * horner(at, more...);
}

// The polynomials are minimax fits of this project's own (linear programming and Remez runs at 50 digits, the terms of
// the float ones rounded one by one); the remark is their largest error, relative to the function they serve.

/// e^r for |r| <= ln(2) / 2, 3.4e-8 and 5.9e-18; up to ln(2) 5.1e-8 and 2.4e-17.
HEED_FN constexpr float exp_polynomial(float r) noexcept {
  return horner(r, 1.0f, 1.0f, 0.500002027f, 0.166668743f, 0.0416235439f, 0.00833534263f, 0.00161026593f);
}
HEED_FN constexpr double exp_polynomial(double r) noexcept {
  return horner(r, 1.0, 1.0, 0.50000000000000025383, 0.16666666666665913391, 0.041666666666643250649,
                0.0083333333337479644403, 0.0013888888892636217739, 0.00019841269055633526652,
                0.000024801589664983016767, 2.755793338394562816e-6, 2.7549974037529216458e-7, 2.4900851022297323492e-8,
                2.4221659666479334542e-9);
}

/// (e^(2 r) - 1) / 2 for |r| <= ln(2) / 4, 1.4e-8 and 2.1e-17. The leading term stands apart so that it is not rounded.
HEED_FN constexpr float half_expm1_polynomial(float r) noexcept {
  return r + r * r * horner(r, 0.99999994f, 0.66666186f, 0.3333394825f, 0.1338601855f, 0.04438610375f);
}
HEED_FN constexpr double half_expm1_polynomial(double r) noexcept {
  return r + r * r *
                 horner(r, 1.0000000000000012864, 0.6666666666666678541, 0.33333333333249931006, 0.13333333333269147596,
                        0.044444444595775720699, 0.012698412791636165159, 0.0031745919682510028766,
                        0.0007054621923850681981, 0.00014145654196816586414, 0.000025765239466234944735);
}

/// (log((1 + s) / (1 - s)) - 2 s) / s for z = s^2 where |s| <= 0.1716, 8.2e-10 and 1.3e-18.
HEED_FN constexpr float log_polynomial(float z) noexcept {
  return z * horner(z, 0.666667759f, 0.399775743f, 0.298711956f);
}
HEED_FN constexpr double log_polynomial(double z) noexcept {
  return z * horner(z, 0.66666666666667345065, 0.39999999999413976747, 0.28571428742559169027, 0.22222198554101057178,
                    0.18183565390422992469, 0.15314021557117330083, 0.14796256729015311737);
}

template <class Real>
HEED_FN constexpr Real exp_of(Real x) noexcept {
  using format = real_format<Real>;
  using bits = bits_of<Real>;
  // Above the largest exponent r grows beyond ln(2) / 2, and the product overflows.
  constexpr Real last = format::rounder + Real(format::bias);
  const Real sum = x * Real(1.442695040888963407) + format::rounder;
  const Real rounded = blend(sum > last, last, sum);
  const Real exponent = rounded - format::rounder;
  const Real r = x - exponent * format::ln2_high - exponent * format::ln2_low;
  // Multiplied in rather than added to the exponent bits: a NaN then stays one.
  const bits power = __builtin_bit_cast(bits, rounded) << format::mantissa;
  return blend(x < format::exp_floor, Real(0), exp_polynomial(r) * __builtin_bit_cast(Real, power));
}

template <class Real>
HEED_FN constexpr Real tanh_of(Real x) noexcept {
  using format = real_format<Real>;
  using bits = bits_of<Real>;
  const bits given = __builtin_bit_cast(bits, x);
  const Real size = magnitude_of(x);
  const Real bounded = blend(size > format::tanh_one, format::tanh_one, size);
  // Half of e^(2 bounded) - 1, without cancellation, from 2 bounded = exponent * ln(2) + 2 r. tanh is that / (that +
  // 1).
  const Real rounded = bounded * Real(2.885390081777926815) + format::rounder;
  const Real exponent = rounded - format::rounder;
  const Real r = bounded - exponent * Real(0.3465735902799726547);
  const Real power = __builtin_bit_cast(Real, bits(__builtin_bit_cast(bits, rounded) << format::mantissa));
  const Real half = half_expm1_polynomial(r) * power + (power * Real(0.5) - Real(0.5));
  const Real result = half / (half + Real(1));
  return __builtin_bit_cast(Real, __builtin_bit_cast(bits, result) | (given & sign_bit<Real>));
}

template <class Real>
HEED_FN constexpr Real log_of(Real x) noexcept {
  using format = real_format<Real>;
  using bits = bits_of<Real>;
  constexpr bits one = __builtin_bit_cast(bits, Real(1));
  constexpr bits root_half = __builtin_bit_cast(bits, Real(0.70710678118654752440));
  constexpr bits fraction = (bits(1) << format::mantissa) - 1;
  // x = 2^exponent * m with m from sqrt(1/2) to sqrt(2). In integers, so that no x is out of range.
  const bits shifted = __builtin_bit_cast(bits, x) + (one - root_half);
  const bits counted = (shifted >> format::mantissa) | __builtin_bit_cast(bits, format::counter);
  const Real exponent = __builtin_bit_cast(Real, counted) - (format::counter + Real(format::bias));
  const Real over = __builtin_bit_cast(Real, bits((shifted & fraction) + root_half)) - Real(1);
  const Real s = over / (over + Real(2));
  const Real rest = s * (over - log_polynomial(s * s));
  const Real result = exponent * format::ln2_high + (over - (rest - exponent * format::ln2_low));
  const Real of_small = blend(x < Real(0), Real(__builtin_nanf("")), -format::infinity);
  return blend(x < format::least_normal, of_small, blend(x < format::infinity, result, x));
}

}  // namespace detail

/// e^x. Within 2 ulp in float and double; exactly 1 at 0, 0 at -inf, inf at inf, NaN for NaN. Results too large are
/// inf; those below the normal range are 0. Like log and tanh it converts an integer to double, as std::exp does, and a
/// half or bfloat16 to float; it needs round to nearest, and is one text for host, device and every instruction set.
[[nodiscard]] HEED_FN constexpr float exp(float x) noexcept { return detail::exp_of(x); }
[[nodiscard]] HEED_FN constexpr double exp(double x) noexcept { return detail::exp_of(x); }
template <detail::integer Integer>
[[nodiscard]] HEED_FN constexpr double exp(Integer x) noexcept {
  return detail::exp_of(static_cast<double>(x));
}

/// The natural logarithm. Within 1 ulp in float and double; exactly 0 at 1, -inf at 0 (subnormal numbers count as
/// 0), inf at inf, NaN below 0 and for NaN.
[[nodiscard]] HEED_FN constexpr float log(float x) noexcept { return detail::log_of(x); }
[[nodiscard]] HEED_FN constexpr double log(double x) noexcept { return detail::log_of(x); }
template <detail::integer Integer>
[[nodiscard]] HEED_FN constexpr double log(Integer x) noexcept {
  return detail::log_of(static_cast<double>(x));
}

/// The hyperbolic tangent. Within 3 ulp in float and double, relative to the result also where that is tiny; odd to the
/// bit, never beyond 1, exactly 1 at inf, -0 at -0, NaN for NaN.
[[nodiscard]] HEED_FN constexpr float tanh(float x) noexcept { return detail::tanh_of(x); }
[[nodiscard]] HEED_FN constexpr double tanh(double x) noexcept { return detail::tanh_of(x); }
template <detail::integer Integer>
[[nodiscard]] HEED_FN constexpr double tanh(Integer x) noexcept {
  return detail::tanh_of(static_cast<double>(x));
}

/// |x|; of integers as std::abs has it: in the promoted type, undefined for the one value that has none.
[[nodiscard]] HEED_FN constexpr float abs(float x) noexcept { return detail::magnitude_of(x); }
[[nodiscard]] HEED_FN constexpr double abs(double x) noexcept { return detail::magnitude_of(x); }
template <detail::integer Integer>
requires std::is_signed_v<Integer>
[[nodiscard]] HEED_FN constexpr auto abs(Integer x) noexcept { return x < 0 ? -x : +x; }

/// `condition ? first : second`, in the type that the conditional has. Both are computed, and the choice stays a blend
/// where a conditional with arithmetic on its sides may become a branch, and the loop around it scalar.
template <detail::number First, detail::mixes_with<First> Second>
[[nodiscard]] HEED_FN constexpr std::common_type_t<First, Second> select(bool condition, First first,
                                                                         Second second) noexcept {
  using Common = std::common_type_t<First, Second>;
  if constexpr (detail::is_real<Common>) {
    return detail::blend(condition, static_cast<Common>(first), static_cast<Common>(second));
  } else {
    return condition ? static_cast<Common>(first) : static_cast<Common>(second);
  }
}

/// The smaller and the larger of two numbers in their common type; the first where they are equal or one is NaN, as
/// with std::min: `max(score, least)` keeps a score that is NaN. Signed and unsigned integers do not mix.
template <detail::number First, detail::mixes_with<First> Second>
[[nodiscard]] HEED_FN constexpr std::common_type_t<First, Second>(min)(First first, Second second) noexcept {
  using Common = std::common_type_t<First, Second>;
  return select(static_cast<Common>(second) < static_cast<Common>(first), second, first);
}
template <detail::number First, detail::mixes_with<First> Second>
[[nodiscard]] HEED_FN constexpr std::common_type_t<First, Second>(max)(First first, Second second) noexcept {
  using Common = std::common_type_t<First, Second>;
  return select(static_cast<Common>(first) < static_cast<Common>(second), second, first);
}

/// x, but not below `low` and not above `high` (low <= high); NaN stays NaN.
template <detail::number Number, detail::mixes_with<Number> Low, detail::mixes_with<Number> High>
[[nodiscard]] HEED_FN constexpr auto clamp(Number x, Low low, High high) noexcept {
  return (min)((max)(x, low), high);
}

}  // namespace heed
