// Philox against the numbers that its authors publish with it.
#include "heed/base/philox.hpp"

#include <gtest/gtest.h>

namespace {

using heed::detail::philox;
using heed::detail::philox_words;

void expect_words(philox_words const& counter, std::uint32_t key_low, std::uint32_t key_high,
                  philox_words const& right) {
  const philox_words found = philox(counter, key_low, key_high);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(found.at[i], right.at[i]) << "word " << i;
}

// kat_vectors of Random123, philox4x32 with 10 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  expect_words({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  expect_words({{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}}, 0xffffffffu, 0xffffffffu,
               {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  expect_words({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u,
               {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST(Philox, IsAConstantExpression) {
  static_assert(philox({{0, 0, 0, 0}}, 0, 0).at[0] == 0x6627e8d5u);
  SUCCEED();
}

}  // namespace
