// Gradients of any masks, stages and options together: every pair of them, and larger subsets drawn at random.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/run_gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// What a forward pass may write besides is no part of a backward pass.
constexpr bool is_output(int one) {
  return one >= static_cast<int>(part::lse) && one <= static_cast<int>(part::biased);
}

void run_any(parts const& these, std::uint64_t seed) {
  scenario s = combination::drawn(these, seed);
  if (s.keys > 150) s.keys /= 2;
  const combination given(these, s);
  switch (seed % 7) {
    case 0:
    case 1: return run_gradients<double>(given);
    case 2: return run_gradients<bfloat16>(given);
    default: return run_gradients<float>(given);
  }
}

TEST(GradientCombinations, EveryPair) {
  std::uint64_t seed = 800000;
  for (int one = 0; one < part_count; ++one) {
    for (int other = one; other < part_count; ++other) {  // equal: that part alone
      parts these;
      these.add(one), these.add(other);
      if (is_output(one) || is_output(other) || !these.is_possible() || ++seed % thinned != 0) continue;
      run_any(these, seed);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// HEED_ORACLE_TIMES that many times as many.
TEST(GradientCombinations, LargerSubsets) {
  std::uint64_t count = 120;
  if (char const* const times = std::getenv("HEED_ORACLE_TIMES")) count *= std::strtoull(times, nullptr, 10);
  for (std::uint64_t seed = 810000; seed < 810000 + count; seed += thinned) {
    random_source random(seed * 17 + 3);
    parts these;
    do {
      these = {};
      for (int one = 0; one < part_count; ++one) {
        if (!is_output(one) && random.chance(one < first_stage ? 0.22 : one < first_option ? 0.45 : 0.35))
          these.add(one);
      }
    } while (!these.is_possible());
    run_any(these, seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
