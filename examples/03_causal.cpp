// Causal attention: no token sees the ones behind it, and a chunk of rows knows where it stands.
//
// Prints the triangle of weights, then that a prompt may be cut into chunks and still gives the same rows.
// Expected last line: "3 chunks agree with the whole prompt".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>

using heed::index_t;
constexpr index_t heads = 2, seq_len = 6, head_dim = 8;

heed::tensor<float, 4> wavy(double phase) {
  heed::tensor<float, 4> filled({index_t{1}, heads, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 101)));
  }
  return filled;
}

// Rows [first, first + count) of every head: a view needs a pointer, extents and strides, nothing else.
template <class T>
heed::tensor_view<T, 4> rows_of(heed::tensor_view<T, 4> all, index_t first, index_t count) {
  return {&all(0, 0, first, 0),
          {all.extent(0), all.extent(1), count, all.extent(3)},
          {all.stride(0), all.stride(1), all.stride(2), all.stride(3)}};
}

// The largest difference between `chunk` and the rows of `whole` from `first` on.
double difference(heed::tensor<float, 4> const& chunk, heed::tensor<float, 4> const& whole, index_t first) {
  double worst = 0;
  for (index_t h = 0; h < heads; ++h) {
    for (index_t i = 0; i < chunk.extent(2); ++i) {
      for (index_t d = 0; d < head_dim; ++d) {
        worst = std::fmax(worst, std::fabs(chunk(0, h, i, d) - whole(0, h, first + i, d)));
      }
    }
  }
  return worst;
}

int fail(char const* what) {
  std::printf("MISMATCH: %s\n", what);
  return 1;
}

int main() {
  const auto query = wavy(0.0), key = wavy(1.0);
  auto value = wavy(2.0);

  auto [whole, weights] = heed::attention_with_weights(query, key, value, heed::causal{});

  std::printf("weights of head 0\n");
  for (index_t i = 0; i < seq_len; ++i) {
    for (index_t j = 0; j < seq_len; ++j) {
      std::printf("%7.3f", static_cast<double>(weights(0, 0, i, j)));
      if (j > i && weights(0, 0, i, j) != 0.0f) return fail("a token sees one behind it");
    }
    std::printf("\n");
  }

  // What is hidden does not matter: with another last value only the last row changes.
  value(0, 0, seq_len - 1, 0) += 1.0f;
  const auto changed = heed::attention(query, key, value, heed::causal{});
  for (index_t i = 0; i + 1 < seq_len; ++i) {
    if (changed(0, 0, i, 0) != whole(0, 0, i, 0)) return fail("the last value reaches an earlier row");
  }
  if (changed(0, 0, seq_len - 1, 0) == whole(0, 0, seq_len - 1, 0))
    return fail("the last value does not reach its row");
  value(0, 0, seq_len - 1, 0) -= 1.0f;

  // The last three rows against all keys: by default the last row stands at the last key, so nothing has to be said.
  const auto tail = heed::attention(rows_of(query.view(), 3, 3), key, value, heed::causal{});
  if (difference(tail, whole, 3) > 1e-6) return fail("the tail differs from the rows of the whole prompt");

  // The first three rows against all keys: they start at key 0, which is what top_left says.
  const auto head =
      heed::attention(rows_of(query.view(), 0, 3), key, value, heed::causal{}, {.anchor = heed::top_left});
  if (difference(head, whole, 0) > 1e-6) return fail("the head differs from the rows of the whole prompt");

  // Two rows from the middle: say at which key the first of them stands.
  const auto middle =
      heed::attention(rows_of(query.view(), 2, 2), key, value, heed::causal{}, {.anchor = heed::at_offset(2)});
  if (difference(middle, whole, 2) > 1e-6) return fail("the middle differs from the rows of the whole prompt");

  std::printf("3 chunks agree with the whole prompt\n");
  return 0;
}
