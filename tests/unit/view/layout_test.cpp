// The named layouts, splitting and merging heads.
#include "heed/view/layout.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace heed;

std::vector<int> counted(int n) {
  std::vector<int> numbers(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) numbers[static_cast<std::size_t>(i)] = i;
  return numbers;
}

TEST(Layout, BhsdAndBshd) {
  auto numbers = counted(2 * 3 * 4 * 5);
  const auto first = bhsd(numbers.data(), 2, 3u, std::size_t{4}, 5);
  EXPECT_EQ(first(1, 2, 3, 4), 119);
  EXPECT_EQ(first(1, 0, 2, 3), 60 + 13);
  const auto second = bshd(numbers.data(), 2, 4, 3, 5);  // batch_size, seq_len, num_heads, head_dim
  EXPECT_EQ(second.extent(1), 3);
  EXPECT_EQ(second.extent(2), 4);
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      for (int s = 0; s < 4; ++s) {
        for (int d = 0; d < 5; ++d) EXPECT_EQ(second(b, h, s, d), ((b * 4 + s) * 3 + h) * 5 + d);
      }
    }
  }
}

TEST(Layout, SplitHeadsIsAViewOfAnyStrides) {
  auto numbers = counted(2 * 4 * 6 * 2);
  const tensor_view<int, 3> every_second(numbers.data(), {2, 4, 6}, {48, 12, 2});
  const auto heads = split_heads(every_second, 3);
  EXPECT_EQ(heads.extent(0), 2);
  EXPECT_EQ(heads.extent(1), 3);
  EXPECT_EQ(heads.extent(2), 4);
  EXPECT_EQ(heads.extent(3), 2);
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      for (int s = 0; s < 4; ++s) {
        for (int d = 0; d < 2; ++d) EXPECT_EQ(heads(b, h, s, d), every_second(b, s, h * 2 + d));
      }
    }
  }
  const auto merged = merge_heads(heads);
  for (int s = 0; s < 4; ++s) {
    for (int c = 0; c < 6; ++c) EXPECT_EQ(merged(1, s, c), every_second(1, s, c));
  }
}

TEST(Layout, MergeHeadsWhereOneStrideIsEnough) {
  auto numbers = counted(2 * 3 * 4 * 5);
  const auto joined = merge_heads(bshd(numbers.data(), 2, 4, 3, 5));
  EXPECT_EQ(joined.extent(2), 15);
  EXPECT_EQ(joined(1, 3, 14), 119);
  const auto one_head = merge_heads(bhsd(numbers.data(), 2, 1, 12, 5));
  EXPECT_EQ(one_head(1, 11, 4), 119);
  const auto one_wide = merge_heads(bhsd(numbers.data(), 2, 3, 20, 1));
  EXPECT_EQ(one_wide(1, 19, 2), 119);
  EXPECT_EQ(one_wide(1, 0, 2), 100);
}

}  // namespace
