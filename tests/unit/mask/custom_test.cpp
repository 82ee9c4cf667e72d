// mask_fn: how functors are kept, and that they answer.
#include "heed/mask/custom.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "heed/mask/causal.hpp"
#include "heed/mask/combine.hpp"
#include "support/blocks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

bool is_even(position at) { return (at.query + at.key) % 2 == 0; }

TEST(MaskFn, AsksTheFunctor) {
  random_source random(1);
  for (int turn = 0; turn < 500; ++turn) {
    const block area = random_block(random, random_offset(random));
    (void)check_block(mask_fn([](position at) { return at.key * 2 <= at.query; }), area, precision::sound);
    (void)check_block(mask_fn(is_even), area, precision::sound);
    (void)check_block(mask_fn([](auto at) { return at.head == 1; }), area, precision::sound);
    // Anything that an if may ask.
    (void)check_block(mask_fn([](position at) { return at.key & 3; }), area, precision::sound);
    (void)check_block(mask_fn([](position at) { return at.key <= at.query; },
                              [](block part) {
                                part.offset = 0;
                                return causal{}.covers(part);
                              }),
                      area, precision::exact);
  }
}

TEST(MaskFn, CopiesWhatIsTrivialAndRefersToOrMovesTheRest) {
  int limit = 3;
  const auto trivial = mask_fn([limit](position at) { return at.key < limit; });
  EXPECT_TRUE(std::is_trivially_copyable_v<decltype(trivial)>);
  std::vector<bool> seen{true, false};
  auto by_list = [seen](position at) { return static_cast<bool>(seen[static_cast<std::size_t>(at.key)]); };
  const auto referring = mask_fn(by_list);
  EXPECT_TRUE(std::is_trivially_copyable_v<decltype(referring)>) << "a pointer";
  EXPECT_EQ(referring.functor.functor, &by_list);
  auto owner = [only = std::make_unique<index_t>(1)](position at) { return at.key == *only; };
  const auto moved = mask_fn(std::move(owner));
  EXPECT_FALSE(std::is_trivially_copyable_v<decltype(moved)>);
  for (index_t key : {0, 1}) {
    EXPECT_EQ(referring.allows({0, 0, 0, key, 0}), key == 0);
    EXPECT_EQ(moved.allows({0, 0, 0, key, 0}), key == 1);
  }
}

}  // namespace
