// Lists are views of numbers that somebody else keeps.
#include "heed/base/list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>
#include <vector>

namespace {

using heed::index_t;
using heed::list;

index_t sum(list<index_t> numbers) {
  index_t total = 0;
  for (index_t i = 0; i < numbers.size(); ++i) total += numbers[i];
  return total;
}

TEST(List, MadeFromEveryKindOfContainer) {
  std::vector<index_t> numbers{1, 2, 3};
  const std::vector<index_t> constant{4, 5};
  const std::array<index_t, 2> array{6, 7};
  const index_t plain[] = {8, 9, 10};
  EXPECT_EQ(sum(numbers), 6);
  EXPECT_EQ(sum(constant), 9);
  EXPECT_EQ(sum(array), 13);
  EXPECT_EQ(sum(plain), 27);
  EXPECT_EQ(sum(std::span<index_t const>(numbers)), 6);
  EXPECT_EQ(sum(std::span<index_t>(numbers).subspan(1)), 5);
  numbers[0] = 100;
  const list<index_t> view(numbers);
  EXPECT_EQ(view[0], 100);  // a view, not a copy
  const list<index_t> copy = view;
  EXPECT_EQ(copy.data(), numbers.data());
}

// An absent list means the whole buffer; a list that is given counts, however it was made and even if it is empty.
TEST(List, KnowsWhetherItWasGiven) {
  const std::vector<index_t> none;
  const index_t plain[] = {8, 9, 10};
  EXPECT_FALSE(list<index_t>().given());
  EXPECT_TRUE(list<index_t>(none).given());
  EXPECT_TRUE(list<index_t>(plain).given());
  EXPECT_TRUE(list<index_t>(std::span<index_t const>()).given());
}

}  // namespace
