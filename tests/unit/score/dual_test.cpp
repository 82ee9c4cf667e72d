// Duals: every operation against differences of itself, the conventions where a derivative is a matter of choice, and
// what score_fn makes of them.
#include "heed/score/dual.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "heed/base/element.hpp"
#include "heed/score/custom.hpp"

namespace {

using heed::dual;
using heed::position;

static_assert(std::is_trivially_copyable_v<dual<float>> && std::is_trivially_default_constructible_v<dual<double>>);
static_assert(sizeof(dual<float>) == 8 && sizeof(dual<double>) == 16);
static_assert(std::is_convertible_v<heed::index_t, dual<float>> && std::is_convertible_v<heed::half, dual<double>>);
static_assert(!std::is_convertible_v<dual<float>, float> && !std::is_convertible_v<dual<float>, dual<double>>);
static_assert(std::numeric_limits<dual<float>>::infinity() == std::numeric_limits<float>::infinity());

template <class Real>
constexpr Real inf = std::numeric_limits<Real>::infinity();

// f at x, and its slope against that of the chord through two neighbours; in float against that of double.
template <class Function>
void expect_slope(Function const& f, std::vector<double> const& points) {
  for (double x : points) {
    const double step = 1e-6 * std::fmax(1.0, std::fabs(x));
    const double chord = (static_cast<double>(f(x + step)) - static_cast<double>(f(x - step))) / (2 * step);
    const dual<double> got = f(dual<double>(x, 1));
    const double value = static_cast<double>(f(x));
    EXPECT_NEAR(got.value, value, 1e-14 * std::fabs(value)) << x;
    EXPECT_NEAR(got.slope, chord, 1e-8 * (1 + std::fabs(value) + std::fabs(chord))) << x;
    // The rule is linear in the slope that comes in.
    EXPECT_NEAR(f(dual<double>(x, -3)).slope, -3 * got.slope, 1e-14 * (1 + std::fabs(got.slope))) << x;
    const float narrow = static_cast<float>(x);
    const dual<double> exact = f(dual<double>(static_cast<double>(narrow), 1));
    const dual<float> rounded = f(dual<float>(narrow, 1));
    EXPECT_NEAR(rounded.value, exact.value, 1e-5 * (1 + std::fabs(exact.value))) << x;
    EXPECT_NEAR(rounded.slope, exact.slope, 1e-5 * (1 + std::fabs(exact.slope))) << x;
  }
}

const std::vector<double> both_signs = {-21.5, -3.25, -1.5, -0.7, -0.03, 0.03, 0.4, 1.75, 2.5, 9.25, 18.0};
const std::vector<double> positive = {0.015625, 0.4, 1.0, 2.75, 19.5};

TEST(Dual, ArithmeticOfDuals) {
  expect_slope([](auto x) { return -x + +x * 2; }, both_signs);
  expect_slope([](auto x) { return x * x + x; }, both_signs);
  expect_slope([](auto x) { return x * x - x * x * x; }, both_signs);
  expect_slope([](auto x) { return (x + 40) / (x * x + 1); }, both_signs);
}

TEST(Dual, ArithmeticWithNumbersOfEveryType) {
  expect_slope([](auto x) { return 3 * x - 2.5f; }, both_signs);
  expect_slope([](auto x) { return 1 - x * 0.25; }, both_signs);
  expect_slope([](auto x) { return heed::index_t{7} + (x - short{2}) * 3u; }, both_signs);
  expect_slope([](auto x) { return x / 8 + heed::half(0.5f) * x; }, both_signs);
  expect_slope([](auto x) { return 2 / x + x + 'a'; }, both_signs);
  expect_slope([](auto x) { return heed::bfloat16(2.0f) / (x * x + true); }, both_signs);
}

TEST(Dual, CompoundAssignments) {
  const auto all = [](auto x) {
    auto y = x;
    y += x;
    y *= x;
    y -= 3 * x;
    y /= x * x + 1;
    y += 2;
    y *= 0.5;
    y -= 1.0f;
    y /= 4;
    return y;
  };
  expect_slope(all, both_signs);
}

TEST(Dual, FunctionsOfTheHouse) {
  expect_slope([](auto x) { return heed::exp(x * 0.5); }, both_signs);
  expect_slope([](auto x) { return heed::log(x); }, positive);
  expect_slope([](auto x) { return 30 * heed::tanh(x / 30); }, both_signs);
  expect_slope([](auto x) { return heed::tanh(x); }, both_signs);
  expect_slope([](auto x) { return heed::abs(x) * x; }, both_signs);
  expect_slope([](auto x) { return x * heed::exp(-heed::abs(x)); }, both_signs);
}

TEST(Dual, FunctionsAreFoundByTheirArgument) {
  expect_slope([](auto x) { return tanh(x) + exp(x * 0.25) + log(abs(x) + 1); }, both_signs);
}

TEST(Dual, Choices) {
  expect_slope([](auto x) { return heed::select(x < 0, x * 0.125, x * x); }, both_signs);
  expect_slope([](auto x) { return heed::select(x > 2, 1, x) + heed::select(x <= -2, x, 0.5f); }, both_signs);
  expect_slope([](auto x) { return (heed::max)(x, 0) + (heed::min)(1.25, x * x); }, both_signs);
  expect_slope([](auto x) { return (heed::max)(x * x, x + 1) - (heed::min)(x, 2 - x); }, both_signs);
  expect_slope([](auto x) { return heed::clamp(x * x, 1, 50.0f) + heed::clamp(1, x - 3, x + 3); }, both_signs);
}

TEST(Dual, BranchesOfTheLanguage) {
  const auto leaky = [](auto x) {
    if (x > 0) return x * 3;
    return x == -1.5 || !(x >= -1) ? x * x : -x;
  };
  expect_slope(leaky, both_signs);
  expect_slope([](auto x) { return 0 < x && x != 7 ? x * x : x / 2; }, both_signs);
  const dual<float> x(2, 1);
  EXPECT_TRUE(x == 2 && x != 3 && x < 2.5 && x <= 2 && x > 1 && x >= 2 && 1 < x && x);
  EXPECT_FALSE(x == 3 || x < 2 || !x || dual<float>(0, 1));
}

template <class Real>
void expect_conventions() {
  const auto at = [](Real x) { return dual<Real>(x, 1); };
  EXPECT_EQ(heed::abs(at(0)).slope, 0);
  EXPECT_EQ(heed::abs(at(-Real(0))).slope, 0);
  EXPECT_EQ(heed::abs(at(-2)).slope, -1);
  EXPECT_EQ(heed::abs(at(-inf<Real>)).slope, -1);
  // The operand that is given has the slope; the first where two are equal.
  EXPECT_EQ((heed::max)(at(3), 3).slope, 1);
  EXPECT_EQ((heed::max)(3, at(3)).slope, 0);
  EXPECT_EQ((heed::min)(at(3), 3).slope, 1);
  EXPECT_EQ(heed::clamp(at(1), -1, 1).slope, 1);
  EXPECT_EQ(heed::clamp(at(-1), -1, 1).slope, 1);
  EXPECT_EQ(heed::clamp(at(2), -1, 1).slope, 0);
  EXPECT_EQ(heed::clamp(at(2), -1, 1).value, 1);
  // Underflow and saturation are flat, whatever goes in.
  EXPECT_EQ(heed::exp(at(-inf<Real>)).slope, 0);
  EXPECT_EQ(heed::exp(dual<Real>(-inf<Real>, inf<Real>)).slope, 0);
  EXPECT_EQ(heed::exp(dual<Real>(-2000, -inf<Real>)).slope, 0);
  EXPECT_EQ(heed::tanh(dual<Real>(inf<Real>, inf<Real>)).slope, 0);
  EXPECT_EQ(heed::tanh(at(-50)).slope, 0);
  EXPECT_EQ(heed::tanh(at(0)).slope, 1);
  EXPECT_EQ(heed::log(at(0)).slope, inf<Real>);
  EXPECT_EQ(heed::exp(at(inf<Real>)).slope, inf<Real>);
  // Plain numbers bring no 0 * inf with them.
  EXPECT_EQ((at(inf<Real>) * 2).slope, 2);
  EXPECT_EQ((3 + at(-inf<Real>)).slope, 1);
  EXPECT_EQ((at(-inf<Real>) / 4).slope, Real(0.25));
  // What is not chosen leaves no trace.
  EXPECT_EQ(heed::select(false, heed::log(at(0)), at(5)).slope, 1);
  EXPECT_EQ(heed::select(true, 2, heed::log(at(-1))).slope, 0);
}

TEST(Dual, ConventionsAtTheEdges) {
  expect_conventions<float>();
  expect_conventions<double>();
}

constexpr position here{1, 2, 3, 4, 5};

TEST(ScoreFn, SlopeIsThatOfAGenericFunctor) {
  const heed::score_fn bent([](auto s, position at) { return s * s - heed::select(at.key < 5, s, 0); });
  EXPECT_EQ(bent.slope(3.0f, here), 5.0f);
  EXPECT_EQ(bent.slope(3.0, position{1, 2, 3, 6, 5}), 6.0);
  static_assert(std::is_same_v<decltype(bent.slope(3.0f, here)), float>);
}

TEST(ScoreFn, SlopeOfAConstantIsZero) {
  const heed::score_fn constant([](auto, position at) { return at.key; });
  EXPECT_EQ(constant.slope(3.0f, here), 0.0f);
}

TEST(ScoreFn, SlopeIsTheDerivativeThatIsGiven) {
  const heed::score_fn given([](double s, position) { return std::sin(s); },
                             [](double s, position const&) { return std::cos(s); });
  EXPECT_EQ(given.slope(0.0f, here), 1.0f);
  EXPECT_EQ(given.slope(2.0, here), std::cos(2.0));
}

TEST(ScoreFn, WhatHasASlope) {
  const auto generic = [](auto s, position) { return s + 1; };
  const auto narrow = [](float s, position) { return s; };
  const auto constrained = []<class Real>(Real s, position) requires(std::is_floating_point_v<Real>) { return s; };
  const auto flat = [](auto, position) { return 1; };
  using none = heed::detail::no_derivative;
  EXPECT_TRUE((heed::detail::has_slope<decltype(generic), none>));
  EXPECT_TRUE((heed::detail::has_slope<decltype(flat), none>));
  EXPECT_FALSE((heed::detail::has_slope<decltype(narrow), none>));
  EXPECT_FALSE((heed::detail::has_slope<decltype(constrained), none>));
  EXPECT_TRUE((heed::detail::has_slope<decltype(narrow), decltype(flat)>));
}

// A rule that is only looked at forward may hold a functor that takes no dual.
TEST(ScoreFn, ForwardUseCompilesNothingWithDuals) {
  const heed::score_fn plain([](auto s, position) { return std::tanh(s); });
  EXPECT_EQ(plain.adjusted(0.5f, here), std::tanh(0.5f));
  EXPECT_TRUE(heed::detail::bends<decltype(plain)>);
}

}  // namespace
