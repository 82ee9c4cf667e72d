// axes<R>: one number for each axis of a view, its extents or its strides.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "heed/base/index.hpp"

namespace heed {

/// R numbers, written as a braced list of any integer types: `{batch_size, 8u, n, std::size_t{64}}`.
template <std::size_t R>
struct axes {
  index_t values[R];

  template <class... I>
  requires(sizeof...(I) == R && (std::is_integral_v<I> && ...)) HEED_FN constexpr axes(I... numbers) noexcept
      : values{static_cast<index_t>(numbers)...} {}  // NOLINT
  template <class I>
  requires std::is_integral_v<I>
  constexpr axes(std::array<I, R> const& numbers) noexcept : values{} {  // NOLINT
    for (std::size_t axis = 0; axis < R; ++axis) values[axis] = static_cast<index_t>(numbers[axis]);
  }

  [[nodiscard]] HEED_FN constexpr index_t operator[](std::size_t axis) const noexcept { return values[axis]; }
  [[nodiscard]] HEED_FN constexpr index_t& operator[](std::size_t axis) noexcept { return values[axis]; }
};

}  // namespace heed
