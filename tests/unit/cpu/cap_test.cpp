// The soft cap over a block of scores, at every level of this machine: caps from the smallest number to the largest.
#include "heed/cpu/verb/cap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "heed/base/fp_environment.hpp"
#include "heed/cpu/isa.hpp"

namespace {

using heed::index_t;
using heed::detail::isa_level;
using heed::detail::simd;

template <class T>
HEED_DOOR_V1 void cap_v1(T* scores, index_t keys, index_t lanes, int vectors, T unit, T cap, T const* row_max,
                         T* block_max) {
  heed::detail::cap_scores<simd<T, 16 / static_cast<int>(sizeof(T))>>(scores, keys, lanes, vectors, unit, cap, row_max,
                                                                      block_max);
}
#if defined(__x86_64__)
template <class T>
HEED_DOOR_V3 void cap_v3(T* scores, index_t keys, index_t lanes, int vectors, T unit, T cap, T const* row_max,
                         T* block_max) {
  heed::detail::cap_scores<simd<T, 32 / static_cast<int>(sizeof(T))>>(scores, keys, lanes, vectors, unit, cap, row_max,
                                                                      block_max);
}
template <class T>
HEED_DOOR_V4 void cap_v4(T* scores, index_t keys, index_t lanes, int vectors, T unit, T cap, T const* row_max,
                         T* block_max) {
  heed::detail::cap_scores<simd<T, 64 / static_cast<int>(sizeof(T))>>(scores, keys, lanes, vectors, unit, cap, row_max,
                                                                      block_max);
}
#endif

template <class T>
constexpr T inf = std::numeric_limits<T>::infinity();

// Two vectors of rows, of which `used` are used, and eleven keys.
constexpr int keys = 11;
template <class T>
struct block {
  int width = 0;  // of a vector
  alignas(64) T scores[keys * 32];
  alignas(64) T row_max[32];
  alignas(64) T block_max[32];

  explicit block(std::vector<T> const& values) {
    switch (heed::detail::current_isa().level) {
      case isa_level::v4: width = 64 / static_cast<int>(sizeof(T)); break;
      case isa_level::v3: width = 32 / static_cast<int>(sizeof(T)); break;
      default: width = 16 / static_cast<int>(sizeof(T));
    }
    for (std::size_t i = 0; i < std::size(scores); ++i) scores[i] = values[i % values.size()];
    std::fill(std::begin(row_max), std::end(row_max), -inf<T>);
    std::fill(std::begin(block_max), std::end(block_max), T(-7));
  }

  void cap(int used, T unit, T cap) {
    const heed::detail::fp_environment environment;
    const index_t lanes = 2 * width;
    switch (heed::detail::current_isa().level) {
#if defined(__x86_64__)
      case isa_level::v4: cap_v4<T>(scores, keys, lanes, used, unit, cap, row_max, block_max); break;
      case isa_level::v3: cap_v3<T>(scores, keys, lanes, used, unit, cap, row_max, block_max); break;
#endif
      default: cap_v1<T>(scores, keys, lanes, used, unit, cap, row_max, block_max);
    }
  }
};

// Of every size, both signs.
template <class T>
std::vector<T> values() {
  std::vector<T> all = {0, T(0.3), -inf<T>, inf<T>, (std::numeric_limits<T>::max)()};
  for (T x = T(1e-30); x < T(1e36); x *= T(97)) {
    all.push_back(x);
    all.push_back(-x);
  }
  return all;
}

template <class T>
void expect_capped(T unit, T cap) {
  block<T> given(values<T>()), b = given;
  b.cap(2, unit, cap);
  const int lanes = 2 * b.width;
  for (int i = 0; i < keys * lanes; ++i) {
    const long double plain = static_cast<T>(given.scores[i] * unit);
    const long double exact = cap == 0 ? plain : cap * std::tanh(plain / cap);
    const T got = b.scores[i];
    if (std::isinf(exact)) {
      EXPECT_EQ(got, static_cast<T>(exact));
      continue;
    }
    const auto bound = std::fabs(exact) * 5 * std::numeric_limits<T>::epsilon() + std::numeric_limits<T>::min();
    EXPECT_LE(std::fabs(got - exact), bound) << given.scores[i] << " under " << cap << " is " << got;
    EXPECT_TRUE(cap == 0 || std::fabs(got) <= cap) << got;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    T highest = -inf<T>;
    for (int key = 0; key < keys; ++key) highest = (std::max)(highest, b.scores[key * lanes + lane]);
    EXPECT_EQ(b.block_max[lane], highest);
  }
}

template <class T>
void expect_capped_by_all() {
  constexpr T most = (std::numeric_limits<T>::max)();
  constexpr T least = (std::numeric_limits<T>::min)();
  for (T cap : {T(50), T(30), T(1), T(0.02), T(1e-30), T(1e30), T(1e38), most, most / 3, least, T(0)}) {
    for (T unit : {T(1), T(0.125), T(-3)}) expect_capped<T>(unit, cap);
  }
}

TEST(Cap, IsWithinFiveUnitsInTheLastPlace) {
  expect_capped_by_all<float>();
  expect_capped_by_all<double>();
}

TEST(Cap, InfiniteScoresBecomeTheCap) {
  block<float> b({-inf<float>, inf<float>});
  b.cap(1, 1.0f, 30.0f);
  EXPECT_EQ(b.scores[0], -30.0f);
  EXPECT_EQ(b.scores[1], 30.0f);
  EXPECT_EQ(b.block_max[0], -30.0f);
}

TEST(Cap, LeavesUnusedVectorsAlone) {
  block<double> b({100.0});
  b.cap(1, 1.0, 30.0);
  EXPECT_LT(b.scores[0], 30.0);
  EXPECT_EQ(b.scores[b.width], 100.0);
  EXPECT_EQ(b.block_max[b.width], -7.0);
}

TEST(Cap, TheMaximumBeforeStaysWhereItIsLarger) {
  block<float> b({1.0f});
  b.row_max[0] = 20.0f;
  b.cap(1, 1.0f, 30.0f);
  EXPECT_EQ(b.block_max[0], 20.0f);
  EXPECT_LT(b.block_max[1], 1.0f);
}

TEST(Cap, NanStaysNan) {
  block<float> b({std::numeric_limits<float>::quiet_NaN()});
  b.cap(1, 1.0f, 30.0f);
  EXPECT_TRUE(std::isnan(b.scores[0]));
}

TEST(Cap, OfADoubleFitsTheTypeOfTheScores) {
  EXPECT_EQ(heed::detail::cap_in<float>(30), 30.0f);
  EXPECT_EQ(heed::detail::cap_in<float>(1e300), 0.0f);
  EXPECT_EQ(heed::detail::cap_in<float>(1e-300), (std::numeric_limits<float>::min)());
  EXPECT_EQ(heed::detail::cap_in<double>(1e300), 1e300);
}

}  // namespace
