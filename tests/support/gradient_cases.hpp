// What the tests of public fault reports about gradients have in common.
#pragma once

#include <cmath>
#include <vector>

#include "support/gradients.hpp"

namespace heed::test {

/// Half a unit of digits that a report printed.
inline constexpr double eight_digits = 5e-8, nine_digits = 5e-9;

/// S7 sums many terms.
template <class T>
void expect_s7(tensor<T, 4> const& found, double right, double printed = nine_digits) {
  EXPECT_NEAR(s7(found), right, tolerance<T>() * static_cast<double>(found.size()) + printed);
}
template <class T>
void expect_first(tensor<T, 4> const& found, std::vector<double> const& right) {
  for (std::size_t i = 0; i < right.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(found.data()[i]), right[i], tolerance<T>() * 4 + eight_digits) << i;
  }
}
template <class T>
void expect_all(tensor<T, 4> const& found, double right) {
  for (index_t i = 0; i < found.size(); ++i) ASSERT_EQ(static_cast<double>(found.data()[i]), right) << i;
}
template <class Real>
void expect_list(std::vector<Real> const& found, std::vector<double> const& right) {
  ASSERT_EQ(found.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(static_cast<double>(found[i]), right[i], 4e-6) << i;
}

/// Zero logits, D = Dv = 1.
template <class T>
tensor<T, 4> zeros(index_t heads, index_t rows) {
  return tensor<T, 4>({1, heads, rows, 1});
}

/// Half and bfloat16 run where rounding between the passes, or a type of its own, is the point.
template <class Check>
void for_each_wide_type(Check const& check) {
  check(float{});
  check(double{});
}

}  // namespace heed::test
