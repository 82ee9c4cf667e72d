// Whether strided boxes share an element, against brute force over every element.
#include "heed/view/overlap.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>

#include "support/random.hpp"

namespace {

using namespace heed;
using detail::operand;
using detail::overlap;

alignas(8) unsigned char memory[1 << 14];

struct box {
  operand shape;
  std::multiset<index_t> bytes;  // every byte of every element, as often as it is owned
};

box random_box(test::random_source& random, index_t spread) {
  box made;
  made.shape.kind = random.pick({element_kind::float16, element_kind::float32, element_kind::float64});
  const index_t size = detail::element_size(made.shape.kind);
  const index_t start = 4096 + size * random.between(0, spread);
  made.shape.data = memory + start;
  made.shape.rank = 4;
  for (int axis = 0; axis < 4; ++axis) {
    made.shape.extents[axis] = random.between(1, 4);
    made.shape.strides[axis] = random.chance(0.1) ? 0 : random.between(-14, 14);
    if (made.shape.extents[axis] == 1) made.shape.strides[axis] = 0;
  }
  for (index_t b = 0; b < made.shape.extents[0]; ++b) {
    for (index_t h = 0; h < made.shape.extents[1]; ++h) {
      for (index_t s = 0; s < made.shape.extents[2]; ++s) {
        for (index_t d = 0; d < made.shape.extents[3]; ++d) {
          const index_t offset = b * made.shape.strides[0] + h * made.shape.strides[1] + s * made.shape.strides[2] +
                                 d * made.shape.strides[3];
          for (index_t byte = 0; byte < size; ++byte) made.bytes.insert(start + offset * size + byte);
        }
      }
    }
  }
  return made;
}

bool repeats(std::multiset<index_t> const& bytes) {
  return std::set<index_t>(bytes.begin(), bytes.end()).size() != bytes.size();
}

TEST(Overlap, ItselfAgainstBruteForce) {
  test::random_source random(11);
  std::map<bool, int> seen;
  for (int turn = 0; turn < 20000; ++turn) {
    const box one = random_box(random, 10);
    const bool expected = repeats(one.bytes);
    ++seen[expected];
    ASSERT_EQ(detail::overlaps_itself(one.shape), expected ? overlap::yes : overlap::no)
        << "extents " << one.shape.extents[0] << " " << one.shape.extents[1] << " " << one.shape.extents[2] << " "
        << one.shape.extents[3] << " strides " << one.shape.strides[0] << " " << one.shape.strides[1] << " "
        << one.shape.strides[2] << " " << one.shape.strides[3];
  }
  EXPECT_GT(seen[false], 1000);
  EXPECT_GT(seen[true], 1000);
}

TEST(Overlap, TwoBoxesAgainstBruteForce) {
  test::random_source random(12);
  std::map<bool, int> seen;
  for (int turn = 0; turn < 20000; ++turn) {
    const box one = random_box(random, 60);
    const box other = random_box(random, 60);
    bool expected = false;
    for (index_t byte : other.bytes) expected = expected || one.bytes.count(byte) != 0;
    ++seen[expected];
    ASSERT_EQ(detail::overlaps(one.shape, other.shape), expected ? overlap::yes : overlap::no) << turn;
  }
  EXPECT_GT(seen[false], 1000);
  EXPECT_GT(seen[true], 1000);
}

TEST(Overlap, PartsOfOnePackedBufferDoNotMeet) {
  // [B, S, 3, H, D]: each third is a strided box between the others.
  const index_t b = 2, s = 5, h = 3, d = 7;
  const auto third = [&](int which) {
    return detail::operand_of(tensor_view<float, 4>(reinterpret_cast<float*>(memory) + which * h * d, {b, h, s, d},
                                                    {s * 3 * h * d, d, 3 * h * d, index_t{1}}));
  };
  EXPECT_EQ(detail::overlaps(third(0), third(1)), overlap::no);
  EXPECT_EQ(detail::overlaps(third(1), third(2)), overlap::no);
  EXPECT_EQ(detail::overlaps(third(1), third(1)), overlap::yes);
  EXPECT_EQ(detail::overlaps_itself(third(1)), overlap::no);
}

TEST(Overlap, EmptyAndHugeBoxes) {
  const index_t huge = index_t{1} << 58;
  const auto sparse =
      detail::operand_of(tensor_view<float, 2>(reinterpret_cast<float*>(memory), {2, 4}, {huge, index_t{1}}));
  const auto none = detail::operand_of(tensor_view<float, 2>(reinterpret_cast<float*>(memory), {0, 4}));
  EXPECT_EQ(detail::overlaps_itself(sparse), overlap::no);
  EXPECT_EQ(detail::overlaps(sparse, none), overlap::no);
  EXPECT_EQ(detail::overlaps(sparse, sparse), overlap::yes);
}

}  // namespace
