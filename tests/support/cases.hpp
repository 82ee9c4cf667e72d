// What the tests of public fault reports have in common: small inputs with a known right value, for every element type.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "heed/heed.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/pattern.hpp"

namespace heed::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// How far a result of order 1 may be off.
template <class T>
constexpr double tolerance() {
  switch (element_kind_of<T>) {
    case element_kind::float64: return 1e-12;
    case element_kind::float32: return 2e-6;
    case element_kind::float16: return 2e-3;
    default: return 1e-2;
  }
}

/// Calls check(T{}) for each element type.
template <class Check>
void for_each_type(Check const& check) {
  const auto named = [&]<class T>(T element) {
    SCOPED_TRACE(type_name<T>());
    check(element);
  };
  named(float{});
  named(double{});
  named(half{});
  named(bfloat16{});
}

template <class T>
struct attended {
  tensor<T, 4> out;
  tensor<accumulate_of<T>, 3> lse;
};

/// One call that returns out and lse; out is first filled with 777, as a stale buffer is.
template <class Query, class Key, class Value, class Rule = no_mask>
auto attend(Query const& query, Key const& key, Value const& value, Rule const& rule = {},
            attention_options const& options = {}) {
  using T = typename Query::value_type;
  attended<T> result{tensor<T, 4>({query.extent(0), query.extent(1), query.extent(2), value.extent(3)}),
                     tensor<accumulate_of<T>, 3>({query.extent(0), query.extent(1), query.extent(2)})};
  for (index_t i = 0; i < result.out.size(); ++i) result.out.data()[i] = static_cast<T>(777);
  for (index_t i = 0; i < result.lse.size(); ++i) result.lse.data()[i] = 777;
  attention(query, key, value, into(result.out).lse(result.lse), rule, options);
  return result;
}

/// Zero logits: out is the mean of the values that a row may see.
template <class T, class Rule = no_mask>
attended<T> means(index_t heads, index_t rows, tensor<T, 4> const& value, Rule const& rule = {},
                  attention_options const& options = {}) {
  const tensor<T, 4> query({value.extent(0), heads, rows, 1}),
      key({value.extent(0), value.extent(1), value.extent(2), 1});
  return attend(query, key, value, rule, options);
}

/// The numbers of out in row-major order. `exactly` is for closed forms; digits that a report printed are rounded.
template <class T, std::size_t R>
void expect_values(tensor<T, R> const& found, std::vector<double> const& expected, double printed = 0) {
  ASSERT_EQ(found.size(), static_cast<index_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = static_cast<double>(found.data()[i]);
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got)) << "element " << i << " is " << got;
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(got, expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(got, expected[i], tolerance<T>() * (1 + std::fabs(expected[i])) + printed) << "element " << i;
    }
  }
}

/// A column of values, one for each key.
template <class T>
tensor<T, 4> values_of(std::vector<double> const& numbers) {
  tensor<T, 4> column({1, 1, static_cast<index_t>(numbers.size()), 1});
  for (std::size_t i = 0; i < numbers.size(); ++i) column.data()[i] = static_cast<T>(numbers[i]);
  return column;
}

/// The key's number as its value.
template <class T>
tensor<T, 4> counted_values(index_t keys) {
  tensor<T, 4> column({1, 1, keys, 1});
  for (index_t j = 0; j < keys; ++j) column.data()[j] = static_cast<T>(static_cast<double>(j));
  return column;
}

/// A bool tensor from a function of its indices.
template <class Function>
tensor<bool, 4> bools(axes<4> extents, Function const& f) {
  tensor<bool, 4> bits(extents);
  for (index_t b = 0; b < bits.extent(0); ++b) {
    for (index_t h = 0; h < bits.extent(1); ++h) {
      for (index_t i = 0; i < bits.extent(2); ++i) {
        for (index_t j = 0; j < bits.extent(3); ++j) bits(b, h, i, j) = f(b, h, i, j);
      }
    }
  }
  return bits;
}

}  // namespace heed::test
