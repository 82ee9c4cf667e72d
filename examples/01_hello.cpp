// The handbook example: two queries look at three keys. Then the same attention over a batch, with a mask.
//
//   g++ -O2 -std=c++20 -Iinclude examples/01_hello.cpp -o hello && ./hello
//
// prints
//   scores
//      0.7071   0.7071   0.0000
//      0.0000   0.7071   0.7071
//   weights
//      0.4011   0.4011   0.1978   sum 1.0000
//      0.1978   0.4011   0.4011   sum 1.0000
//   output
//      0.5989   1.0000
//      0.5989   1.2033
//   batched, each token sees itself and what came before, weights of batch item 0
//      1.0000   0.0000   0.0000   sum 1.0000
//      0.3302   0.6698   0.0000   sum 1.0000
//      0.1978   0.4011   0.4011   sum 1.0000
//
// A handbook that circulates prints weights .380 .380 .239 and outputs .619 .999 / .619 1.140 here: those are not the
// softmax of its own scores .707 .707 0, whose weights are the ones above.
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>

// The handbook's batched_attention(Q, K, V, mask): Q, K, V are [batch, n, d], mask is (n, n) with true = hidden;
// returns the output [batch, 1, n, d] and the weights [batch, 1, n, n].
template <class View, class Mask>
auto batched_attention(View const& Q, View const& K, View const& V, Mask const& mask) {
  return heed::attention_with_weights(Q, K, V, heed::drop_mask(mask));
}

void print(char const* title, heed::tensor_view<float const, 2> matrix, bool with_sums = false) {
  std::printf("%s\n", title);
  for (heed::index_t i = 0; i < matrix.extent(0); ++i) {
    float sum = 0;
    for (heed::index_t j = 0; j < matrix.extent(1); ++j) {
      std::printf("%9.4f", static_cast<double>(matrix(i, j)));
      sum += matrix(i, j);
    }
    if (with_sums) std::printf("   sum %.4f", static_cast<double>(sum));
    std::printf("\n");
  }
}

bool is_near(char const* name, heed::tensor_view<float const, 2> matrix, float const* expected) {
  for (heed::index_t i = 0; i < matrix.extent(0); ++i) {
    for (heed::index_t j = 0; j < matrix.extent(1); ++j, ++expected) {
      if (std::fabs(matrix(i, j) - *expected) > 5e-5f) {
        std::printf("MISMATCH: %s(%d, %d) is %.6f, not %.4f\n", name, static_cast<int>(i), static_cast<int>(j),
                    static_cast<double>(matrix(i, j)), static_cast<double>(*expected));
        return false;
      }
    }
  }
  return true;
}

int main() {
  const float q[] = {1, 0, /**/ 0, 1};
  const float k[] = {1, 0, /**/ 1, 1, /**/ 0, 1};
  const float v[] = {1, 0, /**/ 0, 2, /**/ 1, 1};
  const heed::tensor_view<float const, 2> query(q, {2, 2}), key(k, {3, 2}), value(v, {3, 2});

  // The call. Everything around it is printing and checking.
  auto [out, weights] = heed::attention_with_weights(query, key, value);

  // The scores are what the weights are the softmax of: query . key / sqrt(head_dim).
  heed::tensor<float, 2> scores({2, 3});
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      scores(i, j) = (query(i, 0) * key(j, 0) + query(i, 1) * key(j, 1)) / std::sqrt(2.0f);
    }
  }
  // Results are [batch, head, row, column]; here there is one batch item and one head.
  const heed::tensor_view<float const, 2> shown_weights(weights.data(), {2, 3}), shown_out(out.data(), {2, 2});
  print("scores", scores);
  print("weights", shown_weights, true);
  print("output", shown_out);

  const float expected_weights[] = {.4011f, .4011f, .1978f, /**/ .1978f, .4011f, .4011f};
  const float expected_out[] = {.5989f, 1.0000f, /**/ .5989f, 1.2033f};
  if (!is_near("weights", shown_weights, expected_weights) || !is_near("output", shown_out, expected_out)) return 1;

  // Two batch items of three tokens; the second one has other values.
  const float tokens[] = {1, 0, /**/ 1, 1, /**/ 0, 1, /**/ /**/ 1, 0, /**/ 1, 1, /**/ 0, 1};
  const float values[] = {1, 0, /**/ 0, 2, /**/ 1, 1, /**/ /**/ 5, 5, /**/ 5, 5, /**/ 5, 5};
  const bool hidden[] = {false, true, true, /**/ false, false, true, /**/ false, false, false};
  const heed::tensor_view<float const, 3> Q(tokens, {2, 3, 2}), V(values, {2, 3, 2});
  const heed::tensor_view<bool const, 2> mask(hidden, {3, 3});

  auto [batch_out, batch_weights] = batched_attention(Q, Q, V, mask);

  const heed::tensor_view<float const, 2> first_weights(batch_weights.data(), {3, 3});
  print("batched, each token sees itself and what came before, weights of batch item 0", first_weights, true);
  const float expected_first[] = {1, 0, 0, /**/ .3302f, .6698f, 0, /**/ .1978f, .4011f, .4011f};
  if (!is_near("batched weights", first_weights, expected_first)) return 1;
  const float expected_batch[] = {1, 0, /**/ .3302f, 1.3395f, /**/ .5989f, 1.2033f, /**/ /**/ 5, 5, 5, 5, 5, 5};
  if (!is_near("batched output", {batch_out.data(), {6, 2}}, expected_batch)) return 1;
  return 0;
}
