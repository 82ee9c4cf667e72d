// window: its answers for blocks and strips, for offsets and bounds of any size.
#include "heed/mask/window.hpp"

#include <gtest/gtest.h>

#include <map>

#include "heed/mask/causal.hpp"
#include "heed/mask/combine.hpp"
#include "support/blocks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

std::optional<index_t> random_bound(random_source& random) {
  if (random.chance(0.2)) return std::nullopt;
  if (random.chance(0.1)) return random.pick({INT64_MAX, INT64_MAX - 1, INT64_MAX - 20});
  return random.between(0, 20);
}

TEST(Window, IsExactForEveryOffsetAndBound) {
  random_source random(1);
  std::map<cover, int> seen;
  for (int turn = 0; turn < 20000; ++turn) {
    const window mask{.left = random_bound(random), .right = random_bound(random)};
    ++seen[check_block(mask, random_block(random, random_offset(random)), precision::exact)];
    if (HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 500);
  EXPECT_GT(seen[cover::full], 500);
  EXPECT_GT(seen[cover::partial], 500);
}

TEST(Window, LeavesNoKeyOutsideOfItsRange) {
  const window mask{.left = 2, .right = 1};
  const key_range range = mask.visible_keys({0, 0, 4, 6, 0, 20, 3});  // rows at 7 and 8
  EXPECT_EQ(range.begin, 5);
  EXPECT_EQ(range.end, 10);
  const key_range behind = mask.visible_keys({0, 0, 4, 6, 0, 20, 100});
  EXPECT_GE(behind.begin, behind.end);
  const key_range before = mask.visible_keys({0, 0, 4, 6, 0, 20, -100});
  EXPECT_GE(before.begin, before.end);
}

TEST(Window, JoinedWithCausalIsABand) {
  const auto band = causal{} & window{.left = 2};
  for (index_t row = 0; row < 9; ++row) {
    for (index_t key = 0; key < 9; ++key) EXPECT_EQ(band.allows({0, 0, row, key, 0}), key <= row && key >= row - 2);
  }
}

}  // namespace
