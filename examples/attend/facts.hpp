// What the weights of a job say: sums, entropy, strongest links.
#pragma once

#include <cmath>
#include <heed/heed.hpp>
#include <limits>

namespace attend {

using heed::index_t;

/// A value and the row it belongs to.
struct extreme {
  double value;
  index_t batch = 0, head = 0, row = 0;
};

/// Collected row by row; bits of entropy tell over how many keys a row spreads (k bits: like 2^k equal ones).
struct row_facts {
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  double smallest_sum = infinity, largest_sum = -infinity;
  extreme smallest_entropy{infinity}, largest_entropy{-infinity};
  index_t rows = 0, empty_rows = 0, nan_rows = 0;

  /// `weights` [b, h, r, Skv] and `lse` [b, h, r] of the piece that begins at these indices.
  template <class T>
  void add(heed::tensor_view<T const, 4> weights, heed::tensor_view<T const, 3> lse, index_t batch, index_t head,
           index_t row) {
    for (index_t b = 0; b < weights.extent(0); ++b) {
      for (index_t h = 0; h < weights.extent(1); ++h) {
        for (index_t r = 0; r < weights.extent(2); ++r) {
          ++rows;
          if (static_cast<double>(lse(b, h, r)) == -infinity) {
            ++empty_rows;
            continue;
          }
          double sum = 0, entropy = 0;
          for (index_t j = 0; j < weights.extent(3); ++j) {
            const double weight = static_cast<double>(weights(b, h, r, j));
            sum += weight;
            if (weight > 0) entropy -= weight * std::log2(weight);
          }
          if (std::isnan(sum)) {
            ++nan_rows;
            continue;
          }
          smallest_sum = std::fmin(smallest_sum, sum);
          largest_sum = std::fmax(largest_sum, sum);
          const extreme here{entropy < 0 ? 0 : entropy, batch + b, head + h, row + r};
          if (here.value < smallest_entropy.value) smallest_entropy = here;
          if (here.value > largest_entropy.value) largest_entropy = here;
        }
      }
    }
  }
};

/// The key with the largest weight of one row; -1 where the row sees none.
template <class T>
index_t strongest(heed::tensor_view<T const, 4> weights, index_t head, index_t row) {
  index_t best = -1;
  double largest = 0;
  for (index_t j = 0; j < weights.extent(3); ++j) {
    const double weight = static_cast<double>(weights(0, head, row, j));
    if (weight > largest) {
      largest = weight;
      best = j;
    }
  }
  return best;
}

/// The largest error over 1 + |expected|; where both are the same infinity or both NaN there is none.
struct largest_error {
  double value = 0;
  void add(double found, double expected) {
    if (found == expected || (std::isnan(found) && std::isnan(expected))) return;
    const double error = std::fabs(found - expected) / (1 + std::fabs(expected));
    if (!(error <= value)) value = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
};

}  // namespace attend
