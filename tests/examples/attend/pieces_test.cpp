// However attend cuts a long job into pieces, every score is in exactly one, and the results are the same bits.
// (The files of attend throw where a call is wrong: this test needs exceptions.)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "../../../examples/attend/results.hpp"
#include "../../../examples/attend/run.hpp"

namespace {

using attend::index_t;
using attend::piece;
using job = attend::problem<float>;

attend::operand<float> filled(std::vector<index_t> shape, int salt) {
  attend::operand<float> x(std::move(shape), "bhsd", 0);
  for (index_t i = 0; i < x.data.size(); ++i) x.data(i) = std::sin(static_cast<float>(i * 3 + salt));
  return x;
}

job make(index_t batch_size, index_t heads, index_t kv_heads, index_t rows, index_t keys) {
  return {.layout = "bhsd",
          .query = filled({batch_size, heads, rows, 8}, 1),
          .key = filled({batch_size, kv_heads, keys, 8}, 2),
          .value = filled({batch_size, kv_heads, keys, 4}, 3),
          .key_lengths = {},
          .mask = {},
          .causal = false,
          .options = {.threads = 1}};
}

TEST(AttendPieces, CoverEveryScoreOnce) {
  for (double most : {1.0, 1e3, 5e5, 1e6, 3e6, 1e7, 1e12}) {
    const job one = make(3, 6, 2, 1100, 40);
    heed::tensor<float, 3> seen({3, 6, 1100});
    for (piece const& at : attend::pieces_of(one, most)) {
      EXPECT_TRUE(at.head.size() == 6 || (at.head.size() == 3 && at.head.begin % 3 == 0)) << "groups stay whole";
      for (index_t b = at.batch.begin; b < at.batch.end; ++b) {
        for (index_t h = at.head.begin; h < at.head.end; ++h) {
          for (index_t r = at.row.begin; r < at.row.end; ++r) seen(b, h, r) += 1;
        }
      }
    }
    for (index_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen.data()[i], 1) << most << " " << i;
  }
  EXPECT_EQ(attend::pieces_of(make(3, 6, 2, 1100, 40), 1e12).size(), 1u);
  EXPECT_EQ(attend::pieces_of(make(3, 6, 2, 1100, 40), 1e6).size(), 1u) << "3 * 6 * 1100 * 40 is below a million";
  EXPECT_EQ(attend::pieces_of(make(3, 6, 2, 1100, 40), 300000.0).size(), 3u) << "one for each batch item";
  EXPECT_EQ(attend::pieces_of(make(3, 6, 2, 1100, 40), 150000.0).size(), 6u) << "and each group";
  EXPECT_EQ(attend::pieces_of(make(3, 6, 2, 1100, 40), 1.0).size(), 18u) << "and 512 rows";
  EXPECT_TRUE(attend::pieces_of(make(0, 6, 2, 5, 5), 1.0).empty());
  EXPECT_EQ(attend::pieces_of(make(2, 6, 2, 5, 0), 1e12).size(), 1u);
}

template <class Tensor>
bool same_bits(Tensor const& one, Tensor const& other) {
  return std::memcmp(one.data(), other.data(), static_cast<std::size_t>(one.size()) * sizeof(float)) == 0;
}

TEST(AttendPieces, GiveTheSameBits) {
  for (int variant = 0; variant < 6; ++variant) {
    job one = make(2, 4, 2, 1100, variant % 2 == 0 ? 1100 : 90);
    one.causal = variant >= 1;
    if (variant == 2) one.options.anchor = heed::at_offset(-7);
    if (variant == 3) one.options.anchor = heed::top_left;
    if (variant >= 3) one.key_lengths = {80, 33};
    if (variant >= 4) {
      one.mask.emplace(heed::axes<4>{variant == 4 ? 1 : 2, 1, variant == 4 ? 1100 : 1, one.keys()});
      for (index_t i = 0; i < one.mask->size(); ++i) one.mask->data()[i] = i % 5 != 0;
    }
    attend::results<float> whole = attend::room_for(one);
    attend::results<float> cut = attend::room_for(one);
    attend::run(one, whole, 1e6);
    attend::run(one, cut, 1e-9);
    EXPECT_TRUE(same_bits(whole.out.data, cut.out.data)) << variant;
    EXPECT_TRUE(same_bits(whole.lse, cut.lse)) << variant;
    const attend::errors worst = attend::check(one, cut);
    EXPECT_LT(worst.out.value, 1e-6) << variant;
    EXPECT_LT(worst.lse.value, 1e-6) << variant;
  }
}

TEST(AttendPieces, WeightsOfOneHeadAreThoseOfAll) {
  job one = make(2, 4, 2, 30, 30);
  one.causal = true;
  one.key_lengths = {30, 21};
  heed::tensor<float, 4> all({2, 4, 30, 30});
  const attend::row_facts facts = attend::facts_of<float>(one, all.view());
  EXPECT_EQ(facts.rows, 2 * 4 * 30);
  EXPECT_EQ(facts.empty_rows, 4 * 9) << "the second item's rows stand at keys -9, -8, ...";
  EXPECT_NEAR(facts.smallest_sum, 1, 1e-6);
  EXPECT_NEAR(facts.largest_sum, 1, 1e-6);
  EXPECT_EQ(facts.smallest_entropy.value, 0);
  heed::tensor<float, 4> single({1, 1, 30, 30});
  heed::tensor<float, 3> lse({1, 1, 30});
  attend::weights_of<float>(one, {{1, 2}, {3, 4}, {0, 30}}, single, lse);
  for (index_t i = 0; i < 30; ++i) {
    for (index_t j = 0; j < 30; ++j) ASSERT_EQ(single(0, 0, i, j), all(1, 3, i, j)) << i << " " << j;
  }
}

TEST(AttendFacts, AreThoseOfTheWeights) {
  heed::tensor<float, 4> weights({1, 1, 4, 4});
  heed::tensor<float, 3> lse({1, 1, 4});
  for (index_t j = 0; j < 4; ++j) weights(0, 0, 1, j) = 0.25f;
  weights(0, 0, 0, 2) = 1.0f;
  lse(0, 0, 2) = -std::numeric_limits<float>::infinity();
  weights(0, 0, 3, 0) = std::nanf("");
  attend::row_facts facts;
  facts.add<float>(weights, lse, 5, 6, 7);
  EXPECT_EQ(facts.rows, 4);
  EXPECT_EQ(facts.empty_rows, 1);
  EXPECT_EQ(facts.nan_rows, 1);
  EXPECT_EQ(facts.smallest_entropy.value, 0.0);
  EXPECT_EQ(facts.largest_entropy.value, 2.0);
  EXPECT_EQ(facts.largest_entropy.batch, 5);
  EXPECT_EQ(facts.largest_entropy.head, 6);
  EXPECT_EQ(facts.largest_entropy.row, 8);
  EXPECT_EQ(attend::strongest<float>(weights, 0, 0), 2);
  EXPECT_EQ(attend::strongest<float>(weights, 0, 2), -1);
}

TEST(AttendErrors, AreRelativeAndSeeNaN) {
  attend::largest_error error;
  error.add(11, 10);
  EXPECT_DOUBLE_EQ(error.value, 1.0 / 11);
  error.add(std::nan(""), std::nan(""));
  const double infinity = std::numeric_limits<double>::infinity();
  error.add(-infinity, -infinity);
  EXPECT_DOUBLE_EQ(error.value, 1.0 / 11);
  error.add(std::nan(""), 0);
  EXPECT_EQ(error.value, infinity);
  error.add(1, 2);
  EXPECT_EQ(error.value, infinity);
}

}  // namespace
