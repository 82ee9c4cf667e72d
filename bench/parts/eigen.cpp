// Compiled for the machine it is built on (bench/CMakeLists.txt): Eigen takes its vectors from the compiler's flags.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "bench/baselines.hpp"

namespace bench {
namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using column = Eigen::ArrayXf;
using input = Eigen::Map<const matrix>;
using output = Eigen::Map<matrix>;

/// Calls run(query, key, value, out) for every head.
template <class Run>
void for_each_head(head_block const& on, Run const& run) {
  for (std::ptrdiff_t head = 0; head < on.heads; ++head) {
    const std::ptrdiff_t begin = head * on.rows * on.dim;
    run(input(on.query + begin, on.rows, on.dim), input(on.key + begin, on.rows, on.dim),
        input(on.value + begin, on.rows, on.dim), output(on.out + begin, on.rows, on.dim));
  }
}

}  // namespace

void eigen_products(head_block const& on) {
  const float scale = 1 / std::sqrt(static_cast<float>(on.dim));
  static thread_local matrix scores;
  for_each_head(on, [&](input const& query, input const& key, input const& value, output out) {
    scores.resize(on.rows, on.rows);
    scores.noalias() = (scale * query) * key.transpose();
    for (std::ptrdiff_t row = 0; row < on.rows; ++row) {
      auto weights = scores.row(row).array();
      weights = (weights - weights.maxCoeff()).exp();
      weights *= 1 / weights.sum();
    }
    out.noalias() = scores * value;
  });
}

void eigen_blocks(head_block const& on) {
  const float scale = 1 / std::sqrt(static_cast<float>(on.dim));
  constexpr std::ptrdiff_t block_rows = 192, block_keys = 256;
  static thread_local matrix scores, scaled;
  for_each_head(on, [&](input const& query, input const& key, input const& value, output out) {
    for (std::ptrdiff_t row = 0; row < on.rows; row += block_rows) {
      const std::ptrdiff_t rows = (std::min)(block_rows, on.rows - row);
      scaled = scale * query.middleRows(row, rows);
      column largest = column::Constant(rows, -INFINITY), sum = column::Zero(rows);
      auto part = out.middleRows(row, rows);
      part.setZero();
      for (std::ptrdiff_t first = 0; first < on.rows; first += block_keys) {
        const std::ptrdiff_t keys = (std::min)(block_keys, on.rows - first);
        scores.resize(rows, keys);
        scores.noalias() = scaled * key.middleRows(first, keys).transpose();
        for (std::ptrdiff_t i = 0; i < rows; ++i) {
          auto weights = scores.row(i).array();
          const float now = (std::max)(largest[i], weights.maxCoeff());
          const float shrink = std::exp(largest[i] - now);
          weights = (weights - now).exp();
          sum[i] = sum[i] * shrink + weights.sum();
          part.row(i) *= shrink;
          largest[i] = now;
        }
        part.noalias() += scores * value.middleRows(first, keys);
      }
      part.array().colwise() /= sum;
    }
  });
}

bool eigen_is_native() {
#if defined(HEED_BENCH_NATIVE)
  return true;
#else
  return false;
#endif
}

}  // namespace bench
