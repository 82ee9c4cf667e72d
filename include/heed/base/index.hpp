// The 64-bit index type and its arithmetic.
#pragma once

#include <cstdint>

#include "heed/base/config.hpp"

namespace heed {

/// The type of every extent, stride, position and length.
using index_t = std::int64_t;

namespace detail {

[[nodiscard]] HEED_FN constexpr index_t lesser(index_t a, index_t b) noexcept { return a < b ? a : b; }
[[nodiscard]] HEED_FN constexpr index_t greater(index_t a, index_t b) noexcept { return a > b ? a : b; }

/// a / b and its rest, for a >= 0 and b > 0. A small call divides by what is larger, time and again.
struct quotient {
  index_t whole, rest;
};
[[nodiscard]] HEED_FN constexpr quotient divide(index_t a, index_t b) noexcept {
  return a < b ? quotient{0, a} : quotient{a / b, a % b};
}

/// a / b rounded up, for a >= 0 and b > 0.
[[nodiscard]] HEED_FN constexpr index_t ceil_div(index_t a, index_t b) noexcept {
  return a <= b ? a > 0 : a / b + (a % b != 0);
}

/// |a|; the one value without an absolute becomes the largest.
[[nodiscard]] HEED_FN constexpr index_t magnitude(index_t a) noexcept {
  return a == INT64_MIN ? INT64_MAX : (a < 0 ? -a : a);
}

// Overflow is found by plain arithmetic: device code has no builtins that tell.

/// a * b and a + b; where 64 bits do not hold the result they return the largest value and later checks refuse it.
[[nodiscard]] HEED_FN constexpr index_t saturating_mul(index_t a, index_t b) noexcept {
  __extension__ using wide = __int128;
  const wide product = static_cast<wide>(a) * b;
  return product < INT64_MIN || product > INT64_MAX ? INT64_MAX : static_cast<index_t>(product);
}
[[nodiscard]] HEED_FN constexpr index_t wrapping_add(index_t a, index_t b) noexcept {
  return static_cast<index_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
/// Whether a + b is something else than `sum`, its lowest 64 bits: then its sign is neither that of a nor that of b.
[[nodiscard]] HEED_FN constexpr bool sum_overflows(index_t a, index_t b, index_t sum) noexcept {
  return ((a ^ sum) & (b ^ sum)) < 0;
}
[[nodiscard]] HEED_FN constexpr index_t saturating_add(index_t a, index_t b) noexcept {
  const index_t sum = wrapping_add(a, b);
  return sum_overflows(a, b, sum) ? INT64_MAX : sum;
}

/// a - b and a + b; what 64 bits do not hold becomes the nearest number that they do.
[[nodiscard]] HEED_FN constexpr index_t saturating_sub(index_t a, index_t b) noexcept {
  const index_t difference = static_cast<index_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  return sum_overflows(difference, b, a) ? (b < 0 ? INT64_MAX : INT64_MIN) : difference;
}
[[nodiscard]] HEED_FN constexpr index_t clamped_add(index_t a, index_t b) noexcept {
  const index_t sum = wrapping_add(a, b);
  return sum_overflows(a, b, sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

}  // namespace detail
}  // namespace heed
