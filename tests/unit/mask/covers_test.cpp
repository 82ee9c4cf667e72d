// What masks say about blocks, against the answers for each of their scores.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "heed/mask/causal.hpp"
#include "heed/mask/combine.hpp"
#include "heed/mask/dense.hpp"
#include "heed/mask/lengths.hpp"
#include "support/blocks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Covers, NoMaskAndLengthsHideNothing) {
  random_source random(1);
  const std::vector<index_t> some{3, 4};
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_EQ(check_block(no_mask{}, random_block(random, 0), precision::exact), cover::full);
    EXPECT_EQ(check_block(lengths{.key = some}, random_block(random, 0), precision::exact), cover::full);
  }
}

TEST(Covers, CausalIsExactForEveryOffset) {
  random_source random(2);
  std::map<cover, int> seen;
  for (int turn = 0; turn < 20000; ++turn) {
    ++seen[check_block(causal{}, random_block(random, random_offset(random)), precision::exact)];
    if (HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 500);
  EXPECT_GT(seen[cover::full], 500);
  EXPECT_GT(seen[cover::partial], 500);
}

/// Bits in runs, so that whole blocks are of one kind as often as mixed.
std::vector<unsigned char> random_bits(random_source& random, std::size_t count) {
  std::vector<unsigned char> bits(count);
  unsigned char now = 0;
  const double change = random.pick({0.5, 0.1, 0.01, 0.0});
  for (auto& bit : bits) {
    if (random.chance(change)) now = now == 0 ? 1 : 0;
    bit = now;
  }
  return bits;
}

template <bool Keep>
void check_dense(std::uint64_t seed) {
  random_source random(seed);
  std::map<cover, int> seen;
  for (int turn = 0; turn < 6000; ++turn) {
    const auto bits = random_bits(random, static_cast<std::size_t>(4 * batch_size * heads * rows * keys));
    bool const* const data = reinterpret_cast<bool const*>(bits.data()) + bits.size() / 2;
    const index_t b = random.chance(0.5) ? 1 : batch_size, h = random.chance(0.5) ? 1 : heads,
                  r = random.chance(0.5) ? 1 : rows, k = random.chance(0.2) ? 1 : keys;
    const int rank = static_cast<int>(random.between(1, 4));
    const block area = random_block(random, random_offset(random));
    const auto check = [&](auto const& view) { ++seen[check_block(dense_mask<Keep>(view), area, precision::exact)]; };
    const index_t step = random.pick({index_t{1}, index_t{2}, index_t{-1}, index_t{0}});
    if (rank == 1) {
      check(tensor_view<bool const, 1>(data, {k}, {step}));
    } else if (rank == 2) {
      check(tensor_view<bool const, 2>(data, {r, k}, {random.between(-40, 40), step}));
    } else if (rank == 3) {
      check(tensor_view<bool const, 3>(data, {h, r, k}, {random.between(-200, 200), random.between(-40, 40), step}));
    } else {
      check(tensor_view<bool const, 4>(
          data, {b, h, r, k}, {random.between(-300, 300), random.between(-200, 200), random.between(-40, 40), step}));
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 200);
  EXPECT_GT(seen[cover::full], 200);
  EXPECT_GT(seen[cover::partial], 200);
}
TEST(Covers, KeepMaskIsExactForEveryRankAndStride) { check_dense<true>(3); }
TEST(Covers, DropMaskIsExactForEveryRankAndStride) { check_dense<false>(4); }

TEST(Covers, DenseMasksReadBytesInBlocksOfEightRightly) {
  // One odd bool at every place of a long row, seen by every block edge.
  constexpr index_t length = 40;
  unsigned char bits[length];
  for (index_t odd = 0; odd < length; ++odd) {
    for (int polarity = 0; polarity < 2; ++polarity) {
      for (index_t j = 0; j < length; ++j) bits[j] = static_cast<unsigned char>((j == odd) == (polarity == 1));
      const keep_mask mask(tensor_view<bool const, 1>(reinterpret_cast<bool const*>(bits), {length}));
      for (index_t begin = 0; begin < length; ++begin) {
        for (index_t end = begin + 1; end <= length; ++end) {
          (void)check_block(mask, block{0, 0, 0, 1, begin, end, 0}, precision::exact);
        }
      }
    }
  }
}

TEST(Covers, AxesOfExtentOneAreRepeatedWhateverTheirStride) {
  const bool bits[] = {true, false, true};
  const keep_mask mask(tensor_view<bool const, 4>(bits, {1, 1, 1, 3}, {999, -999, 12345, 1}));
  EXPECT_TRUE(mask.allows({7, 8, 9, 0, 0}));
  EXPECT_FALSE(mask.allows({7, 8, 9, 1, 0}));
  const keep_mask one(tensor_view<bool const, 1>(bits, {1}, {INT64_MAX}));
  EXPECT_TRUE(one.allows({1, 2, 3, 4, 0}));
  EXPECT_EQ(one.covers({0, 0, 0, 5, 0, 5, 0}), cover::full);
}

TEST(Covers, JoinedMasksAllApply) {
  random_source random(5);
  std::map<cover, int> seen;
  for (int turn = 0; turn < 6000; ++turn) {
    const auto bits = random_bits(random, static_cast<std::size_t>(rows * keys));
    const auto others = random_bits(random, static_cast<std::size_t>(rows * keys));
    const keep_mask keep(tensor_view<bool const, 2>(reinterpret_cast<bool const*>(bits.data()), {rows, keys}));
    const drop_mask drop(tensor_view<bool const, 2>(reinterpret_cast<bool const*>(others.data()), {rows, keys}));
    const block area = random_block(random, random_offset(random));
    ++seen[check_block(keep & causal{}, area, precision::sound)];
    (void)check_block(causal{} & drop, area, precision::sound);
    (void)check_block(keep & drop & causal{}, area, precision::sound);
    (void)check_block((no_mask{} & causal{}) & (drop & keep), area, precision::sound);
    if (HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 200);
  EXPECT_GT(seen[cover::full], 200);
  EXPECT_GT(seen[cover::partial], 200);
  // Where one mask hides nothing, the joined answer is that of the other.
  const block edge{0, 0, 0, 4, 0, 4, 0};
  EXPECT_EQ((causal{} & no_mask{}).covers(edge), cover::partial);
  EXPECT_EQ((no_mask{} & causal{}).covers({0, 0, 4, 8, 0, 4, 0}), cover::full);
  EXPECT_EQ((no_mask{} & causal{}).covers({0, 0, 0, 4, 4, 8, 0}), cover::none);
}

TEST(Narrow, LengthsCutASequenceAndIntersect) {
  const std::vector<index_t> query{9, 5}, key{20, 7}, start{3, 0}, key2{11, 30};
  sequence whole{13, 0, 29, 0};
  sequence seq = whole;
  detail::narrow(lengths{.query = query, .key = key, .key_start = start}, 0, seq);
  EXPECT_EQ(seq.query_len, 9);
  EXPECT_EQ(seq.key_begin, 3);
  EXPECT_EQ(seq.key_end, 20);
  seq = whole;
  detail::narrow(causal{} & lengths{.query = query, .key = key} & lengths{.key = key2, .key_start = start}, 0, seq);
  EXPECT_EQ(seq.query_len, 9);
  EXPECT_EQ(seq.key_begin, 3);
  EXPECT_EQ(seq.key_end, 11);
  seq = whole;
  detail::narrow(lengths{.key = key} & lengths{.key = key2}, 1, seq);
  EXPECT_EQ(seq.query_len, 13);
  EXPECT_EQ(seq.key_end, 7);
  seq = whole;
  detail::narrow(no_mask{}, 1, seq);
  EXPECT_EQ(seq.key_end, 29);
}

TEST(Anchor, OffsetOfEachKind) {
  const std::vector<index_t> offsets{5, -7};
  EXPECT_EQ(anchor().offset(0, 3, 10), 7);
  EXPECT_EQ(bottom_right.offset(0, 10, 3), -7);
  EXPECT_EQ(top_left.offset(1, 3, 10), 0);
  EXPECT_EQ(at_offset(INT64_MIN).offset(1, 3, 10), INT64_MIN);
  EXPECT_EQ(at_offset(offsets).offset(1, 3, 10), -7);
}

}  // namespace
