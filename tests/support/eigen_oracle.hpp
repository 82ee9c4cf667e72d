// A second oracle that shares nothing with the first: whole matrices, Eigen's products, a matrix of what is visible.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "heed/view/tensor.hpp"

namespace heed::test {

struct eigen_answer {
  tensor<double, 4> out;
  tensor<double, 3> lse;
  tensor<double, 4> weights;
};

/// visible(b, h, i, j) says which scores count. Values must be finite, hidden ones too.
template <class Visible>
eigen_answer eigen_attention(tensor<double, 4> const& query, tensor<double, 4> const& key,
                             tensor<double, 4> const& value, double scale, Visible const& visible) {
  using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const index_t batch_size = query.extent(0), heads = query.extent(1), rows = query.extent(2), keys = key.extent(2);
  const index_t group = heads / key.extent(1);
  eigen_answer answer{tensor<double, 4>({batch_size, heads, rows, value.extent(3)}),
                      tensor<double, 3>({batch_size, heads, rows}), tensor<double, 4>({batch_size, heads, rows, keys})};
  if (keys == 0) {
    for (index_t i = 0; i < answer.lse.size(); ++i) answer.lse.data()[i] = -std::numeric_limits<double>::infinity();
    return answer;
  }
  for (index_t b = 0; b < batch_size; ++b) {
    for (index_t h = 0; h < heads; ++h) {
      const Eigen::Map<matrix const> q(&query(b, h, 0, 0), rows, query.extent(3));
      const Eigen::Map<matrix const> k(&key(b, h / group, 0, 0), keys, key.extent(3));
      const Eigen::Map<matrix const> v(&value(b, h / group, 0, 0), keys, value.extent(3));
      matrix score = scale * (q * k.transpose());
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < keys; ++j) {
          if (!visible(b, h, i, j)) score(i, j) = -std::numeric_limits<double>::infinity();
        }
        const double largest = score.row(i).maxCoeff();
        if (std::isinf(largest)) {
          answer.lse(b, h, i) = largest;
          score.row(i).setZero();
          continue;
        }
        score.row(i) = (score.row(i).array() - largest).exp().matrix();
        const double sum = score.row(i).sum();
        answer.lse(b, h, i) = largest + std::log(sum);
        score.row(i) /= sum;
      }
      Eigen::Map<matrix>(&answer.weights(b, h, 0, 0), rows, keys) = score;
      Eigen::Map<matrix>(&answer.out(b, h, 0, 0), rows, value.extent(3)) = score * v;
    }
  }
  return answer;
}

}  // namespace heed::test
