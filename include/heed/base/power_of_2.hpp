// Division by lanes, lines and blocks, which are powers of 2: without the tens of cycles that others take.
#pragma once

#include "heed/base/index.hpp"

namespace heed::detail {

/// a / b, for a >= 0 and a power of 2.
[[nodiscard]] HEED_INLINE constexpr index_t div_pow2(index_t a, index_t b) noexcept {
  return a >> __builtin_ctzll(static_cast<unsigned long long>(b));
}
/// a % b
[[nodiscard]] HEED_INLINE constexpr index_t mod_pow2(index_t a, index_t b) noexcept { return a & (b - 1); }
/// The multiples of b next to a, below and above.
[[nodiscard]] HEED_INLINE constexpr index_t round_down_pow2(index_t a, index_t b) noexcept { return a & -b; }
[[nodiscard]] HEED_INLINE constexpr index_t round_up_pow2(index_t a, index_t b) noexcept { return (a + b - 1) & -b; }
/// a / b, rounded up.
[[nodiscard]] HEED_INLINE constexpr index_t ceil_div_pow2(index_t a, index_t b) noexcept {
  return div_pow2(a + b - 1, b);
}

}  // namespace heed::detail
