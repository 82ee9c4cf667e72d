// The builders of block maps: what each row of blocks sees.
#include "heed/mask/block_sparse_patterns.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace heed;

std::vector<std::string> picture(tensor<bool, 2> const& blocks) {
  std::vector<std::string> lines;
  for (index_t row = 0; row < blocks.extent(0); ++row) {
    lines.emplace_back();
    for (index_t key = 0; key < blocks.extent(1); ++key) lines.back() += blocks(row, key) ? '#' : '.';
  }
  return lines;
}
using lines = std::vector<std::string>;

TEST(Patterns, SlidingIsABandFromTheLastCorner) {
  EXPECT_EQ(picture(sliding_blocks(4, 4, {.left = 1, .right = 0})), (lines{"#...", "##..", ".##.", "..##"}));
  EXPECT_EQ(picture(sliding_blocks(2, 4, {.left = 0, .right = 1})), (lines{"..##", "...#"}));
  EXPECT_EQ(picture(sliding_blocks(3, 1, {.left = 0, .right = 1})), (lines{".", "#", "#"}));
  EXPECT_EQ(picture(sliding_blocks(2, 2, {.left = INT64_MAX, .right = INT64_MAX})), (lines{"##", "##"}));
  EXPECT_TRUE(picture(sliding_blocks(0, 4)).empty());
}

TEST(Patterns, StridedSeesEverySummary) {
  EXPECT_EQ(picture(strided_blocks(4, 6, {.local = 1, .stride = 3})), (lines{"..#..#", "..##.#", "..#.##", "..#..#"}));
  EXPECT_EQ(picture(strided_blocks(2, 2, {.local = 0, .stride = 2})), (lines{".#", ".#"}));
}

TEST(Patterns, BigBirdHasItsThreePartsAndDrawsEachBlockOnce) {
  const auto plain = bigbird_blocks(6, 6, {.local = 3, .global = 1, .random = 0});
  EXPECT_EQ(picture(plain), (lines{"######", "###...", "####..", "#.###.", "#..###", "#...##"}));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto blocks = bigbird_blocks(20, 20, {.local = 3, .global = 2, .random = 3, .seed = seed});
    const auto fixed = bigbird_blocks(20, 20, {.local = 3, .global = 2, .random = 0});
    for (index_t row = 0; row < 20; ++row) {
      int more = 0;
      for (index_t key = 0; key < 20; ++key) {
        EXPECT_TRUE(blocks(row, key) || !fixed(row, key));
        more += blocks(row, key) && !fixed(row, key);
      }
      EXPECT_EQ(more, row < 2 ? 0 : 3) << "row " << row;
    }
  }
  EXPECT_EQ(picture(bigbird_blocks(3, 3, {.local = 1, .global = 0, .random = 9})), (lines{"###", "###", "###"}));
}

TEST(Patterns, TheSameSeedGivesTheSameMapAndEachBlockIsAsLikely) {
  EXPECT_EQ(picture(bigbird_blocks(8, 8, {.seed = 5})), picture(bigbird_blocks(8, 8, {.seed = 5})));
  EXPECT_NE(picture(bigbird_blocks(30, 30, {.seed = 5})), picture(bigbird_blocks(30, 30, {.seed = 6})));
  std::vector<int> drawn(10, 0);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto one = bigbird_blocks(1, 10, {.local = 0, .global = 0, .random = 3, .seed = seed});
    for (index_t key = 0; key < 10; ++key) drawn[static_cast<std::size_t>(key)] += one(0, key);
  }
  for (int count : drawn) EXPECT_NEAR(count, 600, 80);
  // The numbers are part of the interface: they never change.
  EXPECT_EQ(picture(bigbird_blocks(2, 12, {.local = 1, .global = 0, .random = 2, .seed = 1})),
            (lines{"......#.#.#.", "...#.....#.#"}));
}

TEST(Patterns, RefuseNegativeNumbers) {
  const auto refused = [](auto const& call, std::string const& part) {
    try {
      (void)call();
      ADD_FAILURE() << "not refused: " << part;
    } catch (error const& broken) {
      EXPECT_EQ(broken.code(), errc::bad_pattern);
      EXPECT_NE(std::string(broken.what()).find(part), std::string::npos) << broken.what();
    }
  };
  refused([] { return bigbird_blocks(-1, 2); }, "heed::bigbird_blocks: row_blocks is -1; it must be at least 0");
  refused([] { return bigbird_blocks(2, 2, {.random = -3}); }, "random is -3");
  refused([] { return bigbird_blocks(2, 2, {.local = -3}); }, "local is -3");
  refused([] { return bigbird_blocks(2, 2, {.global = -3}); }, "global is -3");
  refused([] { return sliding_blocks(2, -2); }, "heed::sliding_blocks: key_blocks is -2");
  refused([] { return sliding_blocks(2, 2, {.left = -2}); }, "left is -2");
  refused([] { return sliding_blocks(2, 2, {.right = -2}); }, "right is -2");
  refused([] { return strided_blocks(2, 2, {.stride = 0}); },
          "heed::strided_blocks: stride is 0; it must be at least 1");
  refused([] { return strided_blocks(2, 2, {.local = -1}); }, "local is -1");
}

}  // namespace
