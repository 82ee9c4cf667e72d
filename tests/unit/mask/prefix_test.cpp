// prefix: its answers for blocks and strips, for offsets and lengths of any size.
#include "heed/mask/prefix.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "heed/mask/causal.hpp"
#include "heed/mask/combine.hpp"
#include "support/blocks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Prefix, IsExactForEveryOffsetAndLength) {
  random_source random(1);
  std::map<cover, int> seen;
  for (int turn = 0; turn < 20000; ++turn) {
    std::vector<index_t> lengths(batch_size);
    for (index_t& length : lengths) length = random.chance(0.1) ? INT64_MAX : random.between(0, keys + 2);
    ++seen[check_block(prefix{.lengths = lengths}, random_block(random, random_offset(random)), precision::exact)];
    if (HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 500);
  EXPECT_GT(seen[cover::full], 500);
  EXPECT_GT(seen[cover::partial], 500);
}

TEST(Prefix, JoinedWithCausalIsCausal) {
  const std::vector<index_t> five{5};
  const auto joined = causal{} & prefix{.lengths = five};
  for (index_t row = 0; row < 9; ++row) {
    for (index_t key = 0; key < 9; ++key) EXPECT_EQ(joined.allows({0, 0, row, key, 0}), key <= row);
  }
}

}  // namespace
