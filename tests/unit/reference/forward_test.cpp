// The reference against numbers worked by hand: it is the oracle of every other test.
#include "heed/reference/forward.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/pattern.hpp"

namespace {

using namespace heed;
using test::column;
using test::pattern;
using test::s7;
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

tensor<double, 4> zeros(axes<4> extents) { return tensor<double, 4>(extents); }

TEST(Reference, HandbookExample) {
  const double q[] = {1, 0, 0, 1}, k[] = {1, 0, 1, 1, 0, 1}, v[] = {1, 0, 0, 2, 1, 1};
  const auto found = reference::solve(tensor_view<double const, 2>(q, {2, 2}), tensor_view<double const, 2>(k, {3, 2}),
                                      tensor_view<double const, 2>(v, {3, 2}));
  const double high = std::exp(std::sqrt(0.5)), sum = 2 * high + 1;
  EXPECT_NEAR(found.weights(0, 0, 0, 0), high / sum, 1e-15);
  EXPECT_NEAR(found.weights(0, 0, 0, 2), 1 / sum, 1e-15);
  EXPECT_NEAR(found.out(0, 0, 0, 0), 0.5989, 5e-5);
  EXPECT_NEAR(found.out(0, 0, 0, 1), 1.0, 1e-15);
  EXPECT_NEAR(found.out(0, 0, 1, 1), 1.2033, 5e-5);
  EXPECT_NEAR(found.lse(0, 0, 1), std::log(sum), 1e-15);
}

TEST(Reference, CanonicalData) {
  const auto q = pattern<double>(31, 1, {2, 3, 5, 7}), k = pattern<double>(5, 20, {2, 3, 6, 7}),
             v = pattern<double>(7, 30, {2, 3, 6, 4});
  auto found = reference::solve(q, k, v);
  EXPECT_NEAR(s7(found.out), 2.56222726, 5e-9);
  EXPECT_NEAR(s7(found.lse), 207.42406, 5e-6);
  EXPECT_NEAR(found.out(0, 0, 0, 0), 0.00445492, 5e-9);
  EXPECT_NEAR(found.out(1, 2, 4, 3), -0.1138005, 5e-8);
  found = reference::solve(q, k, v, causal{});
  EXPECT_NEAR(s7(found.out), -1.06359697, 5e-9);
  EXPECT_NEAR(s7(found.lse), 149.809613, 5e-7);
  const auto widest = reference::solve<long double>(q, k, v, causal{});
  EXPECT_NEAR(static_cast<double>(widest.lse(1, 2, 4)), found.lse(1, 2, 4), 1e-14);
}

TEST(Reference, AnchorsAndEmptyRows) {
  const auto v = column<double>({1, 2, 4, 8});
  const auto mean = [&](index_t rows, anchor where) {
    return reference::solve(zeros({1, 1, rows, 1}), zeros({1, 1, 4, 1}), v, causal{}, {.anchor = where}).out;
  };
  EXPECT_DOUBLE_EQ(mean(2, top_left)(0, 0, 1, 0), 1.5);
  EXPECT_DOUBLE_EQ(mean(2, bottom_right)(0, 0, 0, 0), 7.0 / 3);
  EXPECT_DOUBLE_EQ(mean(2, bottom_right)(0, 0, 1, 0), 3.75);
  EXPECT_DOUBLE_EQ(mean(2, at_offset(1))(0, 0, 0, 0), 1.5);
  EXPECT_DOUBLE_EQ(mean(2, at_offset(-1))(0, 0, 0, 0), 0);
  EXPECT_DOUBLE_EQ(mean(2, at_offset(INT64_MAX))(0, 0, 1, 0), 3.75);
  EXPECT_DOUBLE_EQ(mean(2, at_offset(INT64_MIN))(0, 0, 1, 0), 0);
  EXPECT_DOUBLE_EQ(mean(6, bottom_right)(0, 0, 1, 0), 0);
  EXPECT_DOUBLE_EQ(mean(6, bottom_right)(0, 0, 2, 0), 1);
  const auto tall = reference::solve(zeros({1, 1, 4, 1}), zeros({1, 1, 2, 1}), column<double>({1, 3}), causal{});
  EXPECT_EQ(tall.lse(0, 0, 1), minus_infinity);
  EXPECT_EQ(tall.lse(0, 0, 2), 0);
  EXPECT_NEAR(tall.lse(0, 0, 3), std::log(2.0), 1e-15);
  EXPECT_EQ(tall.weights(0, 0, 2, 0), 1);
  EXPECT_EQ(tall.weights(0, 0, 1, 0), 0);
}

TEST(Reference, LengthsIntersectAndMoveTheDiagonal) {
  // Keys [1, 5) and [0, 4) of 6, rows 3 and 2 of 3: keys [1, 4), two rows, off = 4 - 2.
  const std::vector<index_t> five{5}, four{4}, one{1}, three{3}, two{2};
  auto v = column<double>({not_a_number, 1, 2, 4, not_a_number, not_a_number});
  auto k = zeros({1, 1, 6, 1});
  k(0, 0, 0, 0) = k(0, 0, 4, 0) = k(0, 0, 5, 0) = not_a_number;
  auto q = zeros({1, 1, 3, 1});
  q(0, 0, 2, 0) = not_a_number;
  const auto rule = lengths{.query = three, .key = five, .key_start = one} & lengths{.query = two, .key = four};
  auto found = reference::solve(q, k, v, rule);
  EXPECT_DOUBLE_EQ(found.out(0, 0, 0, 0), 7.0 / 3);
  EXPECT_DOUBLE_EQ(found.out(0, 0, 1, 0), 7.0 / 3);
  EXPECT_EQ(found.out(0, 0, 2, 0), 0);
  EXPECT_EQ(found.lse(0, 0, 2), minus_infinity);
  EXPECT_EQ(found.weights(0, 0, 1, 4), 0);
  found = reference::solve(q, k, v, rule & causal{});
  EXPECT_DOUBLE_EQ(found.out(0, 0, 0, 0), 1.5);  // off = 2: keys 1 and 2
  EXPECT_DOUBLE_EQ(found.out(0, 0, 1, 0), 7.0 / 3);
}

TEST(Reference, MasksAlignRightAndKeepIsNotDrop) {
  auto v = zeros({2, 3, 4, 1});
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 3; ++h) {
      for (index_t j = 0; j < 4; ++j) v(b, h, j, 0) = static_cast<double>(j + 10 * h + 100 * b);
    }
  }
  bool bits[24];
  for (int i = 0; i < 24; ++i) bits[i] = i % 2 == 0;
  const auto q = zeros({2, 3, 2, 1}), k = zeros({2, 3, 4, 1});
  const auto check = [&](auto const& rule, double base) {
    const auto found = reference::solve(q, k, v, rule);
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 3; ++h)
        EXPECT_DOUBLE_EQ(found.out(b, h, 1, 0), base + static_cast<double>(10 * h + 100 * b));
    }
  };
  check(keep_mask(tensor_view<bool const, 1>(bits, {4})), 1);
  check(drop_mask(tensor_view<bool const, 1>(bits, {4})), 2);
  check(keep_mask(tensor_view<bool const, 3>(bits, {3, 1, 4})), 1);
  check(keep_mask(tensor_view<bool const, 4>(bits, {2, 3, 1, 4})), 1);
  check(keep_mask(tensor_view<bool const, 2>(bits, {1, 4}, {999, 1})), 1);
  const bool heads[] = {true, false, true};
  const auto found = reference::solve(q, k, v, keep_mask(tensor_view<bool const, 3>(heads, {3, 1, 1})));
  EXPECT_DOUBLE_EQ(found.out(0, 0, 0, 0), 1.5);
  EXPECT_DOUBLE_EQ(found.out(1, 1, 1, 0), 0);
  EXPECT_DOUBLE_EQ(found.out(1, 2, 1, 0), 121.5);
}

TEST(Reference, GroupsOfHeadsRanksAndEmptyCalls) {
  auto v = zeros({1, 2, 1, 1});
  v(0, 0, 0, 0) = 1, v(0, 1, 0, 0) = 2;
  const auto grouped = reference::solve(zeros({1, 4, 1, 3}), zeros({1, 2, 1, 3}), v);
  EXPECT_EQ(grouped.out(0, 1, 0, 0), 1);
  EXPECT_EQ(grouped.out(0, 2, 0, 0), 2);

  double numbers[24];
  for (int i = 0; i < 24; ++i) numbers[i] = 0.1 * i - 1;
  const tensor_view<double const, 3> rank3(numbers, {2, 4, 3});
  const tensor_view<double const, 2> rank2(numbers, {4, 3});
  const tensor_view<double const, 4> rank4(numbers, {2, 1, 4, 3});
  tensor<double, 3> out3({2, 4, 3});
  tensor<double, 2> out2({4, 3}), lse2({2, 4});
  tensor<float, 1> lse1({4});
  tensor<float, 4> weights({1, 1, 4, 4});
  reference::attention(rank3, rank3, rank3, into(out3).lse(lse2), causal{});
  reference::attention(rank2, rank2, rank2, into(out2).lse(lse1).weights(weights), causal{}, {.scale = 0.5});
  const auto three = reference::solve(rank4, rank4, rank4, causal{});
  const auto two = reference::solve(rank2, rank2, rank2, causal{}, {.scale = 0.5});
  EXPECT_EQ(out3(1, 3, 2), three.out(1, 0, 3, 2));
  EXPECT_EQ(lse2(1, 2), three.lse(1, 0, 2));
  EXPECT_EQ(out2(3, 2), two.out(0, 0, 3, 2));
  EXPECT_EQ(lse1(3), static_cast<float>(two.lse(0, 0, 3)));
  EXPECT_EQ(weights(0, 0, 3, 1), static_cast<float>(two.weights(0, 0, 3, 1)));
  EXPECT_EQ(weights(0, 0, 1, 2), 0);

  const auto no_keys = reference::solve(zeros({1, 1, 3, 2}), zeros({1, 1, 0, 2}), zeros({1, 1, 0, 5}));
  EXPECT_EQ(no_keys.out(0, 0, 2, 4), 0);
  EXPECT_EQ(no_keys.lse(0, 0, 2), minus_infinity);
  EXPECT_EQ(reference::solve(zeros({0, 2, 3, 2}), zeros({0, 1, 3, 2}), zeros({0, 1, 3, 2})).out.size(), 0);
  EXPECT_EQ(reference::solve(zeros({1, 0, 3, 2}), zeros({1, 0, 3, 2}), zeros({1, 0, 3, 2})).out.size(), 0);
}

TEST(Reference, NotANumberAndInfinityFollowIeee) {
  auto q = zeros({1, 1, 2, 1});
  q(0, 0, 0, 0) = not_a_number;
  const auto v = column<double>({1, 2, 4});
  auto found = reference::solve(q, zeros({1, 1, 3, 1}), v);
  EXPECT_TRUE(std::isnan(found.out(0, 0, 0, 0)) && std::isnan(found.lse(0, 0, 0)));
  EXPECT_DOUBLE_EQ(found.out(0, 0, 1, 0), 7.0 / 3);
  q(0, 0, 0, 0) = 1;
  found = reference::solve(q, column<double>({-minus_infinity, 0, 0}), v);
  EXPECT_TRUE(std::isnan(found.out(0, 0, 0, 0)));
  // An infinitely negative logit takes no part, and alone it leaves the row empty.
  q(0, 0, 1, 0) = 1;
  found = reference::solve(q, column<double>({minus_infinity, 0, 0}), column<double>({not_a_number, 2, 4}));
  EXPECT_DOUBLE_EQ(found.out(0, 0, 1, 0), 3);
  found = reference::solve(q, column<double>({minus_infinity}), column<double>({5}));
  EXPECT_EQ(found.out(0, 0, 1, 0), 0);
  EXPECT_EQ(found.lse(0, 0, 1), minus_infinity);
}

TEST(Reference, WiderKeysAreRoundedToTheAccumulateTypeOnLoad) {
  const double wide[] = {1 + 1e-12};
  const float one[] = {1};
  const auto found =
      reference::solve(tensor_view<float const, 2>(one, {1, 1}), tensor_view<double const, 2>(wide, {1, 1}),
                       tensor_view<double const, 2>(wide, {1, 1}));
  EXPECT_EQ(found.lse(0, 0, 0), 1);
  EXPECT_EQ(found.out(0, 0, 0, 0), 1);
}

}  // namespace
