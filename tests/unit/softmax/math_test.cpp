// exp, log and tanh of score functors at every level of this machine: their stated ulp bounds, their values at the
// edges, and that a loop over them is made of vectors only.
#include "heed/softmax/math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "heed/base/element.hpp"
#include "heed/base/fp_environment.hpp"
#include "heed/cpu/isa.hpp"
#include "support/disassembly.hpp"
#include "support/sanitizers.hpp"

namespace {

using heed::detail::isa_level;

// Each function, and what it is judged by.
struct exp_function {
  template <class T>
  HEED_INLINE static T at(T x) {
    return heed::exp(x);
  }
  static double exact(float x) { return std::exp(double{x}); }
  static long double exact(double x) { return std::exp(static_cast<long double>(x)); }
};
struct log_function {
  template <class T>
  HEED_INLINE static T at(T x) {
    return heed::log(x);
  }
  static double exact(float x) { return std::log(double{x}); }
  static long double exact(double x) { return std::log(static_cast<long double>(x)); }
};
struct tanh_function {
  template <class T>
  HEED_INLINE static T at(T x) {
    return heed::tanh(x);
  }
  static double exact(float x) { return std::tanh(double{x}); }
  static long double exact(double x) { return std::tanh(static_cast<long double>(x)); }
};
// Arithmetic on both sides of a choice, bounds that are constants: what a compiler may turn into branches.
struct choice_function {
  template <class T>
  HEED_INLINE static T at(T x) {
    const T bounded = heed::clamp(x, -30, 30);
    const T leaky = heed::select(bounded < 0, T(0.25) * bounded + 1, 3 * bounded);
    return heed::max(leaky, heed::min(bounded, 2)) * heed::abs(x);
  }
};

template <int Lanes, class Function, class T>
HEED_INLINE void rows(T const* __restrict from, T* __restrict to, std::size_t count) {
  for (std::size_t row = 0; row < count; row += Lanes) {
    for (std::size_t lane = 0; lane < Lanes; ++lane) to[row + lane] = Function::at(from[row + lane]);
  }
}
template <class Function, class T>
HEED_DOOR_V1 void rows_v1(T const* from, T* to, std::size_t count) {
  rows<16 / static_cast<int>(sizeof(T)), Function>(from, to, count);
}
#if defined(__x86_64__)
template <class Function, class T>
HEED_DOOR_V3 void rows_v3(T const* from, T* to, std::size_t count) {
  rows<32 / static_cast<int>(sizeof(T)), Function>(from, to, count);
}
template <class Function, class T>
HEED_DOOR_V4 void rows_v4(T const* from, T* to, std::size_t count) {
  rows<64 / static_cast<int>(sizeof(T)), Function>(from, to, count);
}
#endif

template <class Function, class T>
std::vector<T> all_of(std::vector<T> arguments) {
  const std::size_t size = arguments.size();
  arguments.resize((size + 15) / 16 * 16);
  std::vector<T> results(arguments.size());
  {
    const heed::detail::fp_environment environment;
    switch (heed::detail::current_isa().level) {
#if defined(__x86_64__)
      case isa_level::v4: rows_v4<Function>(arguments.data(), results.data(), arguments.size()); break;
      case isa_level::v3: rows_v3<Function>(arguments.data(), results.data(), arguments.size()); break;
#endif
      default: rows_v1<Function>(arguments.data(), results.data(), arguments.size());
    }
  }
  results.resize(size);
  return results;
}

template <class T>
using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// Every `stride`-th bit pattern, the first and last ones of each exponent, and what lies densely around 0 and 1.
template <class T>
std::vector<T> arguments(bits_of<T> stride) {
  std::vector<T> all;
  const auto add = [&](T x) {
    if (std::isnan(x) || std::fpclassify(x) == FP_SUBNORMAL) return;
    all.push_back(x);
    all.push_back(-x);
  };
  const auto infinite = std::bit_cast<bits_of<T>>(std::numeric_limits<T>::infinity());
  for (bits_of<T> bits = 0; bits < infinite - stride; bits += stride) add(std::bit_cast<T>(bits));
  const bits_of<T> first = bits_of<T>(1) << (std::numeric_limits<T>::digits - 1);
  for (bits_of<T> bits = first; bits < infinite; bits += first) {
    for (bits_of<T> more = 0; more < 40; ++more) {
      add(std::bit_cast<T>(bits + more));
      add(std::bit_cast<T>(bits - more));
    }
  }
  for (int i = 0; i < 200000; ++i) {
    add(T(i) * T(0.0001237));  // to 24.7
    add(T(i) * T(0.00371));    // to 742
    add(T(1) + T(i - 100000) * T(1e-6));
  }
  return all;
}

// In units of the last place of the exact result, which is 0 or infinite where it is beyond the normal numbers.
template <class Function, class T>
double worst_ulp(bits_of<T> stride) {
  const std::vector<T> from = arguments<T>(stride);
  const std::vector<T> results = all_of<Function>(from);
  double worst = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto exact = Function::exact(from[i]);
    const T rounded = static_cast<T>(exact);
    if (std::isnan(exact)) {
      if (!std::isnan(results[i])) ADD_FAILURE() << "of " << from[i] << " is " << results[i];
      continue;
    }
    if (std::isinf(rounded) || std::fabs(exact) <= std::numeric_limits<T>::min()) {
      const bool fine = std::isinf(rounded) ? results[i] == rounded
                                            : std::fabs(results[i]) <= std::numeric_limits<T>::min() * T(1.000001);
      if (!fine) ADD_FAILURE() << "of " << from[i] << " is " << results[i] << " instead of " << rounded;
      continue;
    }
    int exponent = 0;
    std::frexp(exact, &exponent);
    const auto ulp = std::ldexp(decltype(exact)(1), exponent - std::numeric_limits<T>::digits);
    const double error = static_cast<double>(std::fabs(results[i] - exact) / ulp);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

constexpr std::uint32_t float_stride = 0x3fd;  // two million numbers of each sign
constexpr std::uint64_t double_stride = 0x2345'6789'abcd;

TEST(Math, ExpIsWithinItsStatedBound) {
  EXPECT_LE((worst_ulp<exp_function, float>(float_stride)), 2.0);
  EXPECT_LE((worst_ulp<exp_function, double>(double_stride)), 2.0);
}
TEST(Math, LogIsWithinItsStatedBound) {
  EXPECT_LE((worst_ulp<log_function, float>(float_stride)), 1.0);
  EXPECT_LE((worst_ulp<log_function, double>(double_stride)), 1.0);
}
TEST(Math, TanhIsWithinItsStatedBound) {
  EXPECT_LE((worst_ulp<tanh_function, float>(float_stride)), 3.0);
  EXPECT_LE((worst_ulp<tanh_function, double>(double_stride)), 3.0);
}

template <class T>
void expect_edges() {
  constexpr T inf = std::numeric_limits<T>::infinity();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T most = (std::numeric_limits<T>::max)();
  constexpr T least = (std::numeric_limits<T>::min)();
  const std::vector<T> at = {T(0), -T(0), inf, -inf, nan, -nan, most, -most, least, -least, T(1), T(-1)};
  const auto e = all_of<exp_function>(at);
  EXPECT_EQ(e[0], T(1));
  EXPECT_EQ(e[1], T(1));
  EXPECT_EQ(e[2], inf);
  EXPECT_EQ(std::bit_cast<bits_of<T>>(e[3]), 0u);
  EXPECT_EQ(e[6], inf);
  EXPECT_EQ(std::bit_cast<bits_of<T>>(e[7]), 0u);
  EXPECT_EQ(e[8], T(1));
  const auto l = all_of<log_function>(at);
  EXPECT_EQ(l[0], -inf);
  EXPECT_EQ(l[1], -inf);
  EXPECT_EQ(l[2], inf);
  EXPECT_TRUE(std::isnan(l[3]));
  EXPECT_EQ(std::bit_cast<bits_of<T>>(l[10]), 0u);
  EXPECT_TRUE(std::isnan(l[7]));
  EXPECT_TRUE(std::isnan(l[9]));
  EXPECT_TRUE(std::isnan(l[11]));
  const auto t = all_of<tanh_function>(at);
  EXPECT_EQ(std::bit_cast<bits_of<T>>(t[0]), 0u);
  EXPECT_TRUE(t[1] == 0 && std::signbit(t[1]));
  EXPECT_EQ(t[2], T(1));
  EXPECT_EQ(t[3], T(-1));
  EXPECT_EQ(t[6], T(1));
  EXPECT_EQ(t[7], T(-1));
  EXPECT_EQ(t[8], least);
  EXPECT_EQ(t[9], -least);
  for (std::size_t i : {4u, 5u}) {
    EXPECT_TRUE(std::isnan(e[i]));
    EXPECT_TRUE(std::isnan(l[i]));
    EXPECT_TRUE(std::isnan(t[i]));
  }
}

TEST(Math, EdgesAreExact) {
  expect_edges<float>();
  expect_edges<double>();
}

TEST(Math, NanWithAPayloadStaysNan) {
  std::vector<float> payloads;
  for (std::uint32_t low = 1; low < 0x400000u; low = low * 3 + 1) {
    payloads.push_back(std::bit_cast<float>(0x7fc00000u | low));
    payloads.push_back(std::bit_cast<float>(0xffc00000u | low));
  }
  for (float result : all_of<exp_function>(payloads)) EXPECT_TRUE(std::isnan(result));
  for (float result : all_of<log_function>(payloads)) EXPECT_TRUE(std::isnan(result));
  for (float result : all_of<tanh_function>(payloads)) EXPECT_TRUE(std::isnan(result));
}

template <class T>
void expect_odd_and_at_most_one() {
  std::vector<T> positive, negative;
  for (T x = T(1e-5); x < 40; x *= T(1.0001)) {
    positive.push_back(x);
    negative.push_back(-x);
  }
  const auto up = all_of<tanh_function>(positive), down = all_of<tanh_function>(negative);
  for (std::size_t i = 0; i < up.size(); ++i) {
    ASSERT_EQ(up[i], -down[i]) << positive[i];
    ASSERT_LE(up[i], T(1)) << positive[i];
  }
}

TEST(Math, TanhIsOddAndAtMostOne) {
  expect_odd_and_at_most_one<float>();
  expect_odd_and_at_most_one<double>();
}

TEST(Math, ChoicesAreRight) {
  const std::vector<float> x = {-100, -2, 0, 1.5f, 100};
  const auto got = all_of<choice_function>(x);
  EXPECT_EQ(got[0], -6.5f * 100);  // -30 / 4 + 1
  EXPECT_EQ(got[1], 0.5f * 2);
  EXPECT_EQ(got[2], 0.0f);
  EXPECT_EQ(got[3], 4.5f * 1.5f);
  EXPECT_EQ(got[4], 90.0f * 100);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan((heed::max)(nan, 1.0f)));
  EXPECT_EQ((heed::max)(1.0f, nan), 1.0f);
  EXPECT_TRUE(std::isnan((heed::min)(nan, 1.0f)));
  EXPECT_EQ((heed::min)(1.0f, nan), 1.0f);
  EXPECT_TRUE(std::isnan(heed::clamp(nan, -1, 1)));
  EXPECT_EQ(heed::clamp(std::numeric_limits<float>::infinity(), -1, 1), 1.0f);
  EXPECT_TRUE(std::isnan(heed::abs(nan)));
  EXPECT_FALSE(std::signbit(heed::abs(-0.0)));
}

TEST(Math, TakesIntegersAndMixedTypesAsTheStandardLibraryDoes) {
  static_assert(std::is_same_v<decltype(heed::exp(1)), double>);
  static_assert(std::is_same_v<decltype(heed::log(heed::index_t{1})), double>);
  static_assert(std::is_same_v<decltype(heed::tanh(1.0f)), float>);
  static_assert(std::is_same_v<decltype(heed::exp(heed::half(1.0f))), float>);
  static_assert(std::is_same_v<decltype(heed::abs(heed::index_t{-1})), heed::index_t>);
  static_assert(std::is_same_v<decltype(heed::abs(short{-1})), int>);
  static_assert(std::is_same_v<decltype((heed::max)(1.0f, 0)), float>);
  static_assert(std::is_same_v<decltype(heed::clamp(heed::index_t{7}, 0, 3)), heed::index_t>);
  static_assert(std::is_same_v<decltype(heed::select(true, 1.0f, 2.0)), double>);
  static_assert(heed::abs(heed::index_t{-5'000'000'000}) == 5'000'000'000);
  static_assert((heed::min)(heed::index_t{3}, heed::index_t{-2}) == -2 && (heed::max)(3, -2) == 3);
  static_assert(heed::clamp(heed::index_t{7}, 0, 3) == 3 && heed::clamp(-0.5, 0, 1) == 0.0);
  static_assert(heed::select(false, 1, 2) == 2 && heed::select(true, 1.5f, 2.0f) == 1.5f);
  static_assert(heed::exp(0.0f) == 1.0f && heed::log(1.0) == 0.0 && heed::tanh(0.0) == 0.0);
  EXPECT_NEAR(heed::exp(1), 2.718281828459045, 1e-15);
  EXPECT_NEAR(heed::log(10), 2.302585092994046, 1e-15);
}

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !HEED_TEST_ASAN && !HEED_TEST_TSAN

// Arithmetic on one number, or a call.
std::string scalar_line(disassembly::routine const& routine) {
  for (auto const& line : routine.lines) {
    const std::string mnemonic = line.substr(0, line.find(' '));
    const bool one = mnemonic.ends_with("ss") || mnemonic.ends_with("sd");
    for (char const* operation : {"add", "sub", "mul", "div", "comi", "cmp", "min", "max"}) {
      if (one && mnemonic.find(operation) != std::string::npos) return line;
    }
    if (mnemonic.starts_with("call")) return line;
  }
  return {};
}

TEST(Math, LoopsAreMadeOfVectorsOnly) {
  all_of<choice_function>(std::vector<double>(16));
#if defined(__clang__)
  // It unrolls a short loop, and makes vectors of what then lies beside each other and of several rows.
  constexpr int fewest_lanes = 8;
  constexpr int expected = 3 + 6;
#else
  constexpr int fewest_lanes = 4;
  constexpr int expected = 4 + 8 + 8;
#endif
  int seen = 0;
  for (auto const& routine : disassembly::disassemble(HEED_OBJDUMP, disassembly::own_path())) {
    const auto named = [&](char const* word) { return routine.name.find(word) != std::string::npos; };
    if (fewest_lanes == 8 && named("choice_function")) continue;
    for (auto const& [level, bytes, whole] :
         {std::tuple("::rows_v1<", 16, "ps "), {"::rows_v3<", 32, "%ymm"}, {"::rows_v4<", 64, "%zmm"}}) {
      if (!named(level) || bytes / (named("double") ? 8 : 4) < fewest_lanes) continue;
      EXPECT_NE(disassembly::line_with(routine, whole), "") << routine.name;
      EXPECT_EQ(scalar_line(routine), "") << routine.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, expected);
}

#endif

}  // namespace
