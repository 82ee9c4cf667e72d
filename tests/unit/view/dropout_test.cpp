// Which scores dropout keeps: the counter as the contract has it, the threshold, and where the words come from.
#include "heed/view/dropout.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

namespace {

using namespace heed;

// The contract once more, by another hand: 64-bit words, recursion over the rounds.
std::uint64_t word_of(std::uint64_t (&counter)[4], std::uint64_t low, std::uint64_t high, int rounds, index_t which) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << 32) - 1;
  if (rounds == 0) return counter[which];
  const std::uint64_t a = counter[0] * 0xD2511F53u, b = counter[2] * 0xCD9E8D57u;
  std::uint64_t next[4] = {(b >> 32) ^ counter[1] ^ low, b & mask, (a >> 32) ^ counter[3] ^ high, a & mask};
  return word_of(next, (low + 0x9E3779B9u) & mask, (high + 0xBB67AE85u) & mask, rounds - 1, which);
}
bool keeps(dropout const& drop, std::uint64_t b, std::uint64_t h, std::uint64_t i, std::uint64_t j) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << 32) - 1;
  std::uint64_t counter[4] = {j / 4 & mask, i & mask, drop.offset & mask, ((b << 16) + h + (drop.offset >> 32)) & mask};
  const std::uint64_t word = word_of(counter, drop.seed & mask, drop.seed >> 32, 10, static_cast<index_t>(j % 4));
  return static_cast<double>(word) >= std::floor(drop.p * 4294967296.0 + 0.5);
}

TEST(Dropout, KeepsWhatTheContractSays) {
  const index_t large[] = {0, 1, 2, 3, 4, 5, 63, 65535, 65536, (index_t{1} << 32) - 1, index_t{1} << 32, INT64_MAX};
  int kept = 0, all = 0;
  for (dropout drop : {dropout{0.3, 7, 0}, dropout{0.5, 0xfedcba9876543210u, 5}, dropout{0.9, 1, UINT64_MAX},
                       dropout{0.1, 2, (std::uint64_t{3} << 32) + 9}}) {
    for (index_t b : {index_t{0}, index_t{1}, index_t{70000}}) {
      for (index_t h : {index_t{0}, index_t{3}, index_t{65536}}) {
        for (index_t i : large) {
          for (index_t j : large) {
            const bool right = keeps(drop, std::uint64_t(b), std::uint64_t(h), std::uint64_t(i), std::uint64_t(j));
            ASSERT_EQ(dropout_keeps(drop, b, h, i, j), right) << b << " " << h << " " << i << " " << j;
            kept += right, ++all;
          }
        }
      }
    }
  }
  EXPECT_GT(kept, all / 4);
  EXPECT_LT(kept, all * 3 / 4);
}

TEST(Dropout, TheThresholdIsRoundedInEveryRoundingMode) {
  using detail::dropout_threshold;
  EXPECT_EQ(dropout_threshold(0), 0u);
  EXPECT_EQ(dropout_threshold(0.25), 0x40000000u);
  EXPECT_EQ(dropout_threshold(0x1p-33), 1u);
  EXPECT_EQ(dropout_threshold(std::nextafter(0x1p-33, 0.0)), 0u);
  EXPECT_EQ(dropout_threshold(1 - 0x1p-32), 0xffffffffu);
  EXPECT_EQ(dropout_threshold(1 - 0x1p-34), std::uint64_t{1} << 32);
  EXPECT_EQ(dropout_threshold(1), std::uint64_t{1} << 32);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    volatile double third = 1.0;
    third = third / 3;
    EXPECT_EQ(dropout_threshold(third), 0x55555555u);
    std::fesetround(FE_TONEAREST);
  }
}

TEST(Dropout, ProbabilitiesOfZeroAndOneAreExact) {
  for (index_t i = 0; i < 100; ++i) {
    for (index_t j = 0; j < 100; ++j) {
      EXPECT_TRUE(dropout_keeps({.p = 0, .seed = 3}, 0, 0, i, j));
      EXPECT_FALSE(dropout_keeps({.p = 1, .seed = 3}, 0, 0, i, j));
    }
  }
}

TEST(Dropout, IsAConstantExpression) {
  static_assert(!dropout_keeps({.p = 0.5}, 0, 0, 0, 0));  // 6627e8d5 e169c58d bc57ac4c 9b00dbd8
  static_assert(dropout_keeps({.p = 0.5}, 0, 0, 0, 1) && dropout_keeps({.p = 0.5}, 0, 0, 0, 2));
  SUCCEED();
}

}  // namespace
