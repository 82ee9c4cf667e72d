// axes<Rank>: one number for each axis of a view, its extents or its strides.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "heed/base/index.hpp"

namespace heed {

/// R numbers, written as a braced list of any integer types: `{batch_size, 8u, n, std::size_t{64}}`.
template <std::size_t Rank>
struct axes {
  index_t values[Rank];

  template <class... Integer>
  requires(sizeof...(Integer) == Rank && (std::is_integral_v<Integer> && ...)) HEED_FN
      constexpr axes(Integer... numbers) noexcept
      : values{static_cast<index_t>(numbers)...} {}  // NOLINT
  template <class Integer>
  requires std::is_integral_v<Integer> HEED_FN constexpr axes(std::array<Integer, Rank> const& numbers) noexcept
      : values{} {  // NOLINT
    for (std::size_t axis = 0; axis < Rank; ++axis) values[axis] = static_cast<index_t>(numbers[axis]);
  }

  [[nodiscard]] HEED_FN constexpr index_t operator[](std::size_t axis) const noexcept { return values[axis]; }
  [[nodiscard]] HEED_FN constexpr index_t& operator[](std::size_t axis) noexcept { return values[axis]; }
};

}  // namespace heed
