// P(a, b), the exactly representable fill of the fault reports, and S7, the one number that notices permuted data.
#pragma once

#include <cstddef>

#include "heed/view/tensor.hpp"

namespace heed::test {

/// x[i] = (((a * i + b) mod 97) - 48) / 64 over the row-major index i, times `factor`.
template <class T>
tensor<T, 4> pattern(index_t a, index_t b, axes<4> extents, double factor = 1.0) {
  tensor<T, 4> filled(extents);
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<T>(static_cast<double>((a * i + b) % 97 - 48) / 64.0 * factor);
  }
  return filled;
}

/// One value per key: [1, 1, n, 1].
template <class T, std::size_t N>
tensor<T, 4> column(double const (&values)[N]) {
  tensor<T, 4> filled({1, 1, N, 1});
  for (std::size_t i = 0; i < N; ++i) filled.data()[i] = static_cast<T>(values[i]);
  return filled;
}

/// Sum over the row-major index i of x[i] * (1 + i mod 7).
template <class T>
double s7(tensor_view<T, 4> const& view) {
  double sum = 0;
  index_t i = 0;
  for (index_t b = 0; b < view.extent(0); ++b) {
    for (index_t h = 0; h < view.extent(1); ++h) {
      for (index_t row = 0; row < view.extent(2); ++row) {
        for (index_t d = 0; d < view.extent(3); ++d, ++i) {
          sum += static_cast<double>(view(b, h, row, d)) * static_cast<double>(1 + i % 7);
        }
      }
    }
  }
  return sum;
}
template <class T, std::size_t R>
double s7(tensor<T, R> const& filled) {
  double sum = 0;
  for (index_t i = 0; i < filled.size(); ++i)
    sum += static_cast<double>(filled.data()[i]) * static_cast<double>(1 + i % 7);
  return sum;
}

}  // namespace heed::test
