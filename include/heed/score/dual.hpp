// dual: a number and its slope, what a score functor is called with where its derivative is asked for.
#pragma once

#include <limits>
#include <type_traits>

#include "heed/softmax/math.hpp"

namespace heed {

template <class Real>
struct dual;

namespace detail {

/// A number that knows of no score: arithmetic types, and what turns into one by itself, as half does.
template <class Number>
concept constant = std::is_convertible_v<Number, double>;

template <class Number>
inline constexpr bool is_dual = false;
template <class Real>
inline constexpr bool is_dual<dual<Real>> = true;

/// The type of a choice between two numbers of which one, at least, is a dual.
template <class First, class Second>
struct choice_of_duals {};
template <class Real>
struct choice_of_duals<dual<Real>, dual<Real>> {
  using type = dual<Real>;
};
template <class Real, constant Second>
struct choice_of_duals<dual<Real>, Second> {
  using type = dual<Real>;
};
template <constant First, class Real>
struct choice_of_duals<First, dual<Real>> {
  using type = dual<Real>;
};
template <class First, class Second>
using dual_of = typename choice_of_duals<First, Second>::type;

}  // namespace detail

/// A number that depends on the score, and its derivative by the score: arithmetic carries both along, so a generic
/// functor that is called with `dual<Real>(score, 1)` gives its value and its slope.
///
/// Mixes with every number that is not a dual, which becomes a Real with slope 0 (in `0.1 * score` of a float score,
///   too). Comparisons look at values only, and so do `if` and `?:` over them: a functor has the slope of the branch
///   that it takes.
/// Where a derivative is a matter of choice: abs has slope 0 at 0; min, max, select and clamp have the slope of the
///   operand that they give, the first one where two are equal (so clamp has slope 1 at its bounds). A factor that is
///   exactly 0 (exp where it has underflowed, tanh where it is 1) gives slope 0 whatever it is multiplied with.
///   Everything else is as IEEE arithmetic has it: log has slope inf at 0.
/// What needs a plain number (static_cast, functions of the standard library) does not compile: the slope would be
///   lost, and nobody told.
template <class Real>
struct dual {
  static_assert(detail::is_real<Real>, "heed::dual: the type is float or double");

  Real value, slope;

  dual() = default;
  HEED_FN constexpr dual(Real number, Real rate) noexcept : value(number), slope(rate) {}
  // Implicit: a functor mixes scores and numbers freely.
  template <detail::constant Number>
  HEED_FN constexpr dual(Number number) noexcept : value(static_cast<Real>(number)), slope(0) {}  // NOLINT

  [[nodiscard]] HEED_FN constexpr explicit operator bool() const noexcept { return value != Real(0); }
  // There only to say what is wrong.
  template <class Number>
  requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) HEED_FN constexpr explicit operator Number()
      const noexcept {
    static_assert(
        !std::is_arithmetic_v<Number>,
        "heed::score_fn: f turns the score into a plain number, so its derivative is lost; make it a generic "
        "lambda of arithmetic and heed's math functions (heed::exp, log, tanh, abs, min, max, clamp, select), "
        "or give the derivative: score_fn(f, derivative)");
    return Number();
  }

  HEED_FN constexpr dual& operator+=(dual other) noexcept { return *this = *this + other; }
  HEED_FN constexpr dual& operator-=(dual other) noexcept { return *this = *this - other; }
  HEED_FN constexpr dual& operator*=(dual other) noexcept { return *this = *this * other; }
  HEED_FN constexpr dual& operator/=(dual other) noexcept { return *this = *this / other; }
  template <detail::constant Number>
  HEED_FN constexpr dual& operator+=(Number other) noexcept {
    return *this = *this + other;
  }
  template <detail::constant Number>
  HEED_FN constexpr dual& operator-=(Number other) noexcept {
    return *this = *this - other;
  }
  template <detail::constant Number>
  HEED_FN constexpr dual& operator*=(Number other) noexcept {
    return *this = *this * other;
  }
  template <detail::constant Number>
  HEED_FN constexpr dual& operator/=(Number other) noexcept {
    return *this = *this / other;
  }

  [[nodiscard]] HEED_FN friend constexpr bool operator==(dual a, dual b) noexcept { return a.value == b.value; }
  [[nodiscard]] HEED_FN friend constexpr bool operator!=(dual a, dual b) noexcept { return a.value != b.value; }
  [[nodiscard]] HEED_FN friend constexpr bool operator<(dual a, dual b) noexcept { return a.value < b.value; }
  [[nodiscard]] HEED_FN friend constexpr bool operator>(dual a, dual b) noexcept { return a.value > b.value; }
  [[nodiscard]] HEED_FN friend constexpr bool operator<=(dual a, dual b) noexcept { return a.value <= b.value; }
  [[nodiscard]] HEED_FN friend constexpr bool operator>=(dual a, dual b) noexcept { return a.value >= b.value; }
};

template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> operator+(dual<Real> a) noexcept {
  return a;
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> operator-(dual<Real> a) noexcept {
  return {-a.value, -a.slope};
}

template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> operator+(dual<Real> a, dual<Real> b) noexcept {
  return {a.value + b.value, a.slope + b.slope};
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> operator-(dual<Real> a, dual<Real> b) noexcept {
  return {a.value - b.value, a.slope - b.slope};
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> operator*(dual<Real> a, dual<Real> b) noexcept {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> operator/(dual<Real> a, dual<Real> b) noexcept {
  const Real ratio = a.value / b.value;
  return {ratio, (a.slope - ratio * b.slope) / b.value};
}

// With plain numbers apart: no compiler may leave out a product with a slope of 0, which is NaN where the value is
// infinite.
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator+(dual<Real> a, Number b) noexcept {
  return {a.value + static_cast<Real>(b), a.slope};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator+(Number a, dual<Real> b) noexcept {
  return {static_cast<Real>(a) + b.value, b.slope};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator-(dual<Real> a, Number b) noexcept {
  return {a.value - static_cast<Real>(b), a.slope};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator-(Number a, dual<Real> b) noexcept {
  return {static_cast<Real>(a) - b.value, -b.slope};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator*(dual<Real> a, Number b) noexcept {
  return {a.value * static_cast<Real>(b), a.slope * static_cast<Real>(b)};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator*(Number a, dual<Real> b) noexcept {
  return {static_cast<Real>(a) * b.value, static_cast<Real>(a) * b.slope};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator/(dual<Real> a, Number b) noexcept {
  return {a.value / static_cast<Real>(b), a.slope / static_cast<Real>(b)};
}
template <class Real, detail::constant Number>
[[nodiscard]] HEED_FN constexpr dual<Real> operator/(Number a, dual<Real> b) noexcept {
  const Real ratio = static_cast<Real>(a) / b.value;
  return {ratio, -ratio * b.slope / b.value};
}

namespace detail {

/// A function's value, and the chain rule. A derivative of exactly 0 wins over a slope that is infinite.
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> chained(Real value, Real derivative, Real slope) noexcept {
  return {value, blend(derivative == Real(0), Real(0), derivative * slope)};
}

/// The slope of what a functor has made of a dual; a plain number is a constant.
template <class Real, class Result>
[[nodiscard]] HEED_FN constexpr Real slope_of([[maybe_unused]] Result const& result) noexcept {
  if constexpr (is_dual<Result>) {
    return result.slope;
  } else {
    return Real(0);
  }
}

}  // namespace detail

template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> exp(dual<Real> x) noexcept {
  const Real value = detail::exp_of(x.value);
  return detail::chained(value, value, x.slope);
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> log(dual<Real> x) noexcept {
  return {detail::log_of(x.value), x.slope / x.value};
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> tanh(dual<Real> x) noexcept {
  const Real value = detail::tanh_of(x.value);
  return detail::chained(value, (Real(1) - value) * (Real(1) + value), x.slope);
}
template <class Real>
[[nodiscard]] HEED_FN constexpr dual<Real> abs(dual<Real> x) noexcept {
  using bits = detail::bits_of<Real>;
  const bits sign = __builtin_bit_cast(bits, x.value) & detail::sign_bit<Real>;
  const Real turned = __builtin_bit_cast(Real, bits(__builtin_bit_cast(bits, x.slope) ^ sign));
  return {detail::magnitude_of(x.value), detail::blend(x.value == Real(0), Real(0), turned)};
}

template <class First, class Second>
[[nodiscard]] HEED_FN constexpr detail::dual_of<First, Second> select(bool condition, First first,
                                                                      Second second) noexcept {
  const detail::dual_of<First, Second> one = first, other = second;
  return {detail::blend(condition, one.value, other.value), detail::blend(condition, one.slope, other.slope)};
}
template <class First, class Second>
[[nodiscard]] HEED_FN constexpr detail::dual_of<First, Second>(min)(First first, Second second) noexcept {
  const detail::dual_of<First, Second> one = first, other = second;
  return select(other < one, other, one);
}
template <class First, class Second>
[[nodiscard]] HEED_FN constexpr detail::dual_of<First, Second>(max)(First first, Second second) noexcept {
  const detail::dual_of<First, Second> one = first, other = second;
  return select(one < other, other, one);
}
template <class Number, class Low, class High>
requires(detail::is_dual<Number> || detail::is_dual<Low> || detail::is_dual<High>) [[nodiscard]] HEED_FN
    constexpr auto clamp(Number x, Low low, High high) noexcept {
  return (min)((max)(x, low), high);
}

}  // namespace heed

/// Those of the numbers: a functor may ask for the limits of `decltype(score)`.
template <class Real>
class std::numeric_limits<heed::dual<Real>> : public std::numeric_limits<Real> {};
