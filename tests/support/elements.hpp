// Facts about the element types that the tests loop over.
#pragma once

#include <cfloat>
#include <cmath>
#include <limits>
#include <type_traits>

#include "heed/base/element.hpp"

namespace heed::test {

/// Names of element types for messages.
template <class T>
constexpr char const* type_name() {
  if constexpr (std::is_same_v<T, half>) return "half";
  if constexpr (std::is_same_v<T, bfloat16>) return "bfloat16";
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, double>) return "double";
  return "other";
}

/// `value` rounded once to T, and back.
template <class T>
double rounded(double value) {
  return static_cast<double>(static_cast<T>(value));
}

/// What heed accumulates in.
template <class Query>
using accumulate_of = std::conditional_t<element_kind_of<Query> == element_kind::float64, double, float>;

/// The judge of a result in Accumulate: wider than it.
template <class Accumulate>
using judge_of = std::conditional_t<std::is_same_v<Accumulate, double>, long double, double>;

template <class T>
constexpr int mantissa_bits() {
  switch (element_kind_of<T>) {
    case element_kind::float16: return 11;
    case element_kind::bfloat16: return 8;
    case element_kind::float32: return 24;
    default: return 53;
  }
}

/// The distance from |value| to the next number of T, for normal numbers.
template <class T>
double ulp(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  if constexpr (element_kind_of<T> == element_kind::float16) exponent = exponent < -13 ? -13 : exponent;
  return std::ldexp(1.0, exponent - mantissa_bits<T>());
}

template <class Accumulate>
constexpr double epsilon = static_cast<double>(std::numeric_limits<Accumulate>::epsilon());

}  // namespace heed::test
