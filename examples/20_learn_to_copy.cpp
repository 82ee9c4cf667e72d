// A model of one attention layer that learns to copy: it reads eight symbols, then eight blanks, and has to say the
// symbols again. Query, key, value and output are products with matrices of weights, made by Eigen; the gradients go
// through attention_backward; the matrices follow them down, step by step.
//
// Prints the falling loss; writes 20_learn_to_copy.svg, or the file that is given: the attention before and after.
// Expected last line: "learned: each blank looks at its symbol".
#include <Eigen/Dense>
#include <cmath>
#include <cstdio>
#include <heed/analysis/heatmap.hpp>
#include <heed/heed.hpp>
#include <heed/interop/eigen.hpp>
#include <random>
#include <string>
#include <vector>

using heed::index_t;
using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr index_t symbols = 6, length = 8, seq_len = 2 * length, batch_size = 16, head_dim = 16, steps = 160;
constexpr index_t features = symbols + 1 + seq_len;  // which symbol (or blank), and where
constexpr float rate = 3;

std::mt19937 generator(1);
float uniform() { return static_cast<float>(generator() >> 8) * 0x1p-24f; }  // the same numbers with every compiler

matrix random_matrix(index_t rows, index_t columns, float size) {
  return matrix::NullaryExpr(rows, columns, [&] { return size * (2 * uniform() - 1); });
}

// Rows of a matrix [batch_size * seq_len, columns] as [batch, row, column]: the memory of one head.
heed::tensor_view<float, 3> rows_of(matrix& all) { return {all.data(), {batch_size, seq_len, all.cols()}}; }

struct model {
  matrix to_query = random_matrix(features, head_dim, 0.5f), to_key = random_matrix(features, head_dim, 0.5f);
  matrix to_value = random_matrix(features, head_dim, 0.5f), to_symbol = random_matrix(head_dim, symbols, 0.5f);

  /// One step down the gradient of the loss, which comes back.
  float learn(matrix const& input, std::vector<index_t> const& said) {
    matrix query = input * to_query, key = input * to_key, value = input * to_value;
    matrix out(query.rows(), head_dim), d_symbols = matrix::Zero(query.rows(), symbols);
    heed::tensor<float, 2> lse({batch_size, seq_len});
    heed::attention(rows_of(query), rows_of(key), rows_of(value), heed::into(rows_of(out)).lse(lse), heed::causal{});

    // Cross entropy, where a blank was read. Its gradient: the chance of each symbol, less 1 for the right one.
    float loss = 0;
    for (index_t row = 0; row < out.rows(); ++row) {
      if (row % seq_len < length) continue;
      const index_t right = said[static_cast<std::size_t>(row - length)];
      matrix chance = (out.row(row) * to_symbol).array().exp();
      chance /= chance.sum();
      loss -= std::log(chance(0, right)) / (batch_size * length);
      chance(0, right) -= 1;
      d_symbols.row(row) = chance / (batch_size * length);
    }
    matrix d_out = d_symbols * to_symbol.transpose();

    matrix dq(query.rows(), head_dim), dk = dq, dv = dq;
    heed::attention_backward(rows_of(query), rows_of(key), rows_of(value), heed::saved(rows_of(out), lse),
                             rows_of(d_out), heed::gradients(rows_of(dq), rows_of(dk), rows_of(dv)), heed::causal{});
    to_symbol -= rate * out.transpose() * d_symbols;
    to_query -= rate * input.transpose() * dq;
    to_key -= rate * input.transpose() * dk;
    to_value -= rate * input.transpose() * dv;
    return loss;
  }

  /// The weights [1, 1, seq_len, seq_len] of the first sequence.
  void show(matrix const& input, heed::tensor_view<float, 4> weights) const {
    const matrix first = input.topRows(seq_len), query = first * to_query, key = first * to_key;
    matrix unused(seq_len, head_dim);
    heed::attention(heed::as_view(query), heed::as_view(key), heed::as_view(key),
                    heed::into(heed::as_view(unused)).weights(weights), heed::causal{});
  }
};

int main(int argc, char** argv) {
  matrix input(batch_size * seq_len, features);
  std::vector<index_t> said(static_cast<std::size_t>(batch_size * seq_len));
  const auto draw = [&] {
    input.setZero();
    for (index_t row = 0; row < input.rows(); ++row) {
      const index_t at = row % seq_len, symbol = at < length ? static_cast<index_t>(generator() % symbols) : symbols;
      said[static_cast<std::size_t>(row)] = symbol;
      input(row, symbol) = input(row, symbols + 1 + at) = 1;
    }
  };

  model learner;
  heed::tensor<float, 4> weights({index_t{1}, index_t{2}, seq_len, seq_len});
  const auto picture_of = [&](index_t when) {
    return heed::tensor_view<float, 4>(&weights(0, when, 0, 0), {index_t{1}, index_t{1}, seq_len, seq_len});
  };
  draw();
  learner.show(input, picture_of(0));
  float loss = 0;
  for (index_t step = 0; step <= steps; ++step) {
    draw();  // never the same sequences twice
    loss = learner.learn(input, said);
    if (step % (steps / 8) != 0) continue;
    std::printf("step %4d  loss %.4f\n", static_cast<int>(step), static_cast<double>(loss));
  }
  learner.show(input, picture_of(1));

  std::printf("guessing would be %.4f\n", std::log(static_cast<double>(symbols)));
  bool looks = loss < 0.1f;
  for (index_t i = 0; i < length; ++i) looks = looks && weights(0, 1, length + i, i) > 0.5f;
  std::vector<std::string> labels;
  for (index_t i = 0; i < seq_len; ++i) labels.emplace_back(1, "abcdef_"[said[static_cast<std::size_t>(i)]]);
  const std::string picture = heed::heatmap(
      weights, {.query_labels = labels, .key_labels = labels, .title = "Head 0: before training, head 1: after it"});
  char const* const path = argc > 1 ? argv[1] : "20_learn_to_copy.svg";
  std::FILE* const file = std::fopen(path, "w");
  looks = looks && file != nullptr && std::fputs(picture.c_str(), file) >= 0 && std::fclose(file) == 0;
  std::printf(looks ? "learned: each blank looks at its symbol\n" : "MISMATCH: not learned, or not written\n");
  return looks ? 0 : 1;
}
