// Eigen matrices and tensors as operands: heed::as_view looks at their memory, whatever its order and strides.
//
// Checked against Eigen's own products. Expected last line: "largest difference from Eigen's products below 1e-6".
#include <Eigen/Dense>
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <heed/interop/eigen.hpp>
#include <unsupported/Eigen/CXX11/Tensor>  // only for the last part

using bools = Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic>;
using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Attention as one would write it in Eigen: the whole matrix of scores.
Eigen::MatrixXf by_products(Eigen::MatrixXf const& query, Eigen::MatrixXf const& key, Eigen::MatrixXf const& value,
                            bools const& keep) {
  Eigen::MatrixXf weights = query * key.transpose() / std::sqrt(static_cast<float>(query.cols()));
  weights = keep.select(weights.array().exp(), 0.0f);
  return weights.rowwise().sum().cwiseInverse().asDiagonal() * (weights * value);
}

int main() {
  const Eigen::Index rows = 12, keys = 20, head_dim = 16, heads = 3;
  float worst = 0;

  // 1. Plain matrices. Column-major, row-major, mixed: the view carries the strides.
  const Eigen::MatrixXf query = Eigen::MatrixXf::Random(rows, head_dim);
  const row_major key = row_major::Random(keys, head_dim);
  const Eigen::MatrixXf value = Eigen::MatrixXf::Random(keys, head_dim);
  Eigen::MatrixXf out(rows, head_dim);
  heed::attention(heed::as_view(query), heed::as_view(key), heed::as_view(value), heed::as_view(out));
  const bools all = bools::Constant(rows, keys, true);
  worst = std::fmax(worst, (out - by_products(query, key, value, all)).cwiseAbs().maxCoeff());

  // 2. A mask of bools, and a vector for the log-sum-exp of each row (a vector is a view of rank 1).
  bools keep = Eigen::ArrayXXf::Random(rows, keys) > 0.0f;
  keep.col(0).setConstant(true);
  Eigen::VectorXf lse(rows);
  heed::attention(heed::as_view(query), heed::as_view(key), heed::as_view(value),
                  heed::into(heed::as_view(out)).lse(heed::as_view(lse)), heed::keep_mask(heed::as_view(keep)));
  worst = std::fmax(worst, (out - by_products(query, key, value, keep)).cwiseAbs().maxCoeff());
  const Eigen::ArrayXXf scores = query * key.transpose() / std::sqrt(static_cast<float>(head_dim));
  const Eigen::ArrayXf sums = keep.select(scores.exp(), 0.0f).rowwise().sum();
  worst = std::fmax(worst, (lse.array() - sums.log()).abs().maxCoeff());

  // 3. Heads side by side in one matrix [rows, heads * head_dim]: each is a block, read and written in place.
  const Eigen::MatrixXf wide = Eigen::MatrixXf::Random(keys, heads * head_dim);
  Eigen::MatrixXf wide_out(keys, heads * head_dim);
  const bools square = bools::Constant(keys, keys, true);
  for (Eigen::Index h = 0; h < heads; ++h) {
    const auto head = wide.middleCols(h * head_dim, head_dim);
    heed::attention(heed::as_view(head), heed::as_view(head), heed::as_view(head),
                    heed::as_view(wide_out.middleCols(h * head_dim, head_dim)));
    worst = std::fmax(
        worst,
        (wide_out.middleCols(h * head_dim, head_dim) - by_products(head, head, head, square)).cwiseAbs().maxCoeff());
  }

  // 4. The Tensor module: [batch, heads, rows, head_dim] in one call, column-major as Eigen likes it.
  Eigen::Tensor<float, 4> batch(2, heads, keys, head_dim), batch_out(2, heads, keys, head_dim);
  batch.setRandom();
  heed::attention(heed::as_view(batch), heed::as_view(batch), heed::as_view(batch), heed::as_view(batch_out));
  Eigen::MatrixXf head(keys, head_dim), head_out(keys, head_dim);
  for (Eigen::Index i = 0; i < keys; ++i) {
    for (Eigen::Index d = 0; d < head_dim; ++d) {
      head(i, d) = batch(1, 2, i, d);
      head_out(i, d) = batch_out(1, 2, i, d);
    }
  }
  worst = std::fmax(worst, (head_out - by_products(head, head, head, square)).cwiseAbs().maxCoeff());

  // What does not compile, on purpose: an expression has no memory, and a temporary is gone before it is read.
  //   heed::as_view(query * 2.0f);           // evaluate it into a named matrix first
  //   heed::as_view(row_major(query));
  if (!(worst < 1e-6f)) {
    std::printf("MISMATCH: %g away from Eigen's products\n", static_cast<double>(worst));
    return 1;
  }
  std::printf("largest difference from Eigen's products below 1e-6\n");
  return 0;
}
