// The cells of a heat map: one head's weights, pooled by their maximum where there are too many to draw.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "heed/view/tensor_view.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// A matrix of numbers to be drawn. Cell (i, j) stands for rows [i * row_step, ...) and keys [j * key_step, ...).
struct heat_cells {
  index_t rows = 0, keys = 0;          // in cells
  index_t row_step = 1, key_step = 1;  // weights in one cell
  std::vector<double> values;          // NaN: not a number or +inf; -inf: hidden

  [[nodiscard]] double at(index_t row, index_t key) const noexcept {
    return values[static_cast<std::size_t>(row * keys + key)];
  }
};

/// NaN wins over everything, so that a fault is seen in every picture.
[[nodiscard]] inline double larger_heat(double one, double other) noexcept {
  if (one != one || other != other) return std::numeric_limits<double>::quiet_NaN();
  return one > other ? one : other;
}

/// The weights of one head, at most `most` cells in each direction.
template <class Element>
[[nodiscard]] heat_cells pool_cells(tensor_view<Element const, 4> const& weights, index_t batch, index_t head,
                                    index_t most) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  heat_cells cells;
  cells.row_step = greater(ceil_div(weights.extent(2), most), 1);
  cells.key_step = greater(ceil_div(weights.extent(3), most), 1);
  cells.rows = ceil_div(weights.extent(2), cells.row_step);
  cells.keys = ceil_div(weights.extent(3), cells.key_step);
  cells.values.assign(static_cast<std::size_t>(cells.rows * cells.keys), -infinity);
  for (index_t row = 0; row < weights.extent(2); ++row) {
    for (index_t key = 0; key < weights.extent(3); ++key) {
      double value = static_cast<double>(weights(batch, head, row, key));
      if (value == infinity) value = std::numeric_limits<double>::quiet_NaN();
      double& cell = cells.values[static_cast<std::size_t>(row / cells.row_step * cells.keys + key / cells.key_step)];
      cell = larger_heat(cell, value);
    }
  }
  return cells;
}

/// The ends of the colour scale, how it runs between them, and which of the two special kinds of cells occur.
struct heat_range {
  double low = 0, high = 0;
  bool linear = false;  // else the square root, unless there are negative numbers
  bool any_finite = false, any_hidden = false, any_nan = false;

  void add(heat_cells const& cells) noexcept {
    for (double value : cells.values) {
      if (value != value) {
        any_nan = true;
      } else if (value == -std::numeric_limits<double>::infinity()) {
        any_hidden = true;
      } else {
        if (value < low) low = value;  // weights begin at 0; scores may lie below
        if (value > high) high = value;
        any_finite = true;
      }
    }
  }
  [[nodiscard]] bool is_linear() const noexcept { return linear || low < 0; }
  /// Where on the ramp a finite value lies, from 0 to 1.
  [[nodiscard]] double share(double value) const noexcept {
    const double part = high > low ? (value - low) / (high - low) : 0;
    return is_linear() ? part : std::sqrt(part);
  }
};

}  // namespace HEED_ABI
}  // namespace heed::detail
