// The one exponential of the kernels, at every level of this machine: its stated ulp bound and its values at the edges.
#include "heed/cpu/simd/exp2.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "heed/base/fp_environment.hpp"
#include "heed/cpu/isa.hpp"
#include "support/sanitizers.hpp"

namespace {

using heed::detail::isa_level;
using heed::detail::simd;

template <class Simd>
[[gnu::always_inline]] inline void exp2_all(typename Simd::scalar const* from, typename Simd::scalar* to,
                                            std::size_t count) {
  for (std::size_t i = 0; i < count; i += static_cast<std::size_t>(Simd::lanes)) {
    typename Simd::vector in, out;
    Simd::load(in, from + i);
    heed::detail::exp2<Simd>(out, in);
    Simd::store(to + i, out);
  }
}

template <class T>
HEED_DOOR_V1 void exp2_v1(T const* from, T* to, std::size_t count) {
  exp2_all<simd<T, 16 / static_cast<int>(sizeof(T))>>(from, to, count);
}
#if defined(__x86_64__)
template <class T>
HEED_DOOR_V3 void exp2_v3(T const* from, T* to, std::size_t count) {
  exp2_all<simd<T, 32 / static_cast<int>(sizeof(T))>>(from, to, count);
}
template <class T>
HEED_DOOR_V4 void exp2_v4(T const* from, T* to, std::size_t count) {
  exp2_all<simd<T, 64 / static_cast<int>(sizeof(T))>>(from, to, count);
}
#endif

template <class T>
std::vector<T> exp2_at(std::vector<T> const& exponents) {
  constexpr std::size_t unit = 16;
  struct alignas(64) line {
    T values[unit];
  };
  std::vector<line> in((exponents.size() + unit - 1) / unit), out(in.size());
  for (std::size_t i = 0; i < exponents.size(); ++i) in[i / unit].values[i % unit] = exponents[i];
  {
    const heed::detail::fp_environment environment;
    T const* const from = in.data()->values;
    T* const to = out.data()->values;
    switch (heed::detail::current_isa().level) {
#if defined(__x86_64__)
      case isa_level::v4: exp2_v4<T>(from, to, in.size() * unit); break;
      case isa_level::v3: exp2_v3<T>(from, to, in.size() * unit); break;
#endif
      default: exp2_v1<T>(from, to, in.size() * unit);
    }
  }
  std::vector<T> result(exponents.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = out[i / unit].values[i % unit];
  return result;
}

template <class T>
double worst_ulp(std::vector<T> const& exponents) {
  const std::vector<T> results = exp2_at(exponents);
  double worst = 0;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    const long double exact = std::exp2l(static_cast<long double>(exponents[i]));
    const int exponent = std::ilogb(static_cast<T>(exact));
    const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits + 1);
    const double error = static_cast<double>(std::fabs(static_cast<long double>(results[i]) - exact) / ulp);
    if (error > worst) worst = error;
  }
  return worst;
}

TEST(Exp2, FloatIsWithinItsStatedBound) {
  std::vector<float> exponents;
  for (float x = 0.0f; x > -125.9f; x -= 0.000113f + x * -1e-7f) exponents.push_back(x);
  for (int i = 1; i < 40000; ++i) exponents.push_back(-1.0f / static_cast<float>(i));
  // Without optimisation a multiply and an add round twice.
  EXPECT_LE(worst_ulp(exponents), HEED_TEST_UNOPTIMISED ? 1.6 : 1.5);
}

TEST(Exp2, DoubleIsWithinItsStatedBound) {
  std::vector<double> exponents;
  for (double x = 0.0; x > -1021.0; x -= 0.00137) exponents.push_back(x);
  for (int i = 1; i < 40000; ++i) exponents.push_back(-1.0 / i);
  EXPECT_LE(worst_ulp(exponents), 1.5);
}

template <class T>
void expect_edges() {
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T lowest = std::numeric_limits<T>::lowest();
  const std::vector<T> results =
      exp2_at(std::vector<T>{T(0), -T(0), T(-1), T(-60), -inf, lowest, T(-1e5), nan, T(-2000)});
  EXPECT_EQ(results[0], T(1));
  EXPECT_EQ(results[1], T(1));
  EXPECT_EQ(results[2], T(0.5));
  EXPECT_EQ(results[3], std::exp2(T(-60)));
  EXPECT_EQ(results[4], T(0));
  EXPECT_EQ(results[5], T(0));
  EXPECT_EQ(results[6], T(0));
  EXPECT_TRUE(std::isnan(results[7]));
  EXPECT_EQ(results[8], T(0));
}

TEST(Exp2, EdgesAreExact) {
  expect_edges<float>();
  expect_edges<double>();
}

TEST(Exp2, NanWithAPayloadStaysNan) {
  std::vector<float> exponents;
  for (std::uint32_t low = 1; low < 0x400000u; low = low * 3 + 1) {
    exponents.push_back(std::bit_cast<float>(0x7fc00000u | low));
    exponents.push_back(std::bit_cast<float>(0xffc00000u | low));
  }
  for (float result : exp2_at(exponents)) EXPECT_TRUE(std::isnan(result));
}

}  // namespace
