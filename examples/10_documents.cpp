// Documents packed one behind the other in a single row of tokens, as training data is: nothing is padded, and no
// document sees another one. The results are those of a call for each document.
//
// Expected last line: "5 documents in one row, each as if it were alone".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <vector>

using heed::index_t;
constexpr index_t heads = 2, head_dim = 16;

heed::tensor<float, 4> wavy(index_t seq_len, double phase) {
  heed::tensor<float, 4> filled({index_t{1}, heads, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 1013)));
  }
  return filled;
}

// Rows [first, first + count) of every head.
heed::tensor_view<float const, 4> rows_of(heed::tensor<float, 4> const& all, index_t first, index_t count) {
  return {&all(0, 0, first, 0),
          {all.extent(0), all.extent(1), count, all.extent(3)},
          {all.stride(0), all.stride(1), all.stride(2), all.stride(3)}};
}

int main() {
  const std::vector<index_t> lengths = {100, 37, 250, 8, 205};

  // An id for each token. Any numbers do; tokens of the same id see each other.
  std::vector<index_t> ids;
  for (std::size_t which = 0; which < lengths.size(); ++which) {
    ids.insert(ids.end(), static_cast<std::size_t>(lengths[which]), static_cast<index_t>(which));
  }
  const auto seq_len = static_cast<index_t>(ids.size());
  const auto query = wavy(seq_len, 0.0), key = wavy(seq_len, 1.0), value = wavy(seq_len, 2.0);

  heed::tensor<float, 4> out({index_t{1}, heads, seq_len, head_dim});
  heed::tensor<float, 3> lse({index_t{1}, heads, seq_len});
  heed::attention(query, key, value, heed::into(out).lse(lse), heed::causal{} & heed::documents{.ids = ids});

  double worst = 0;
  index_t first = 0;
  for (const index_t length : lengths) {
    heed::tensor<float, 4> alone({index_t{1}, heads, length, head_dim});
    heed::tensor<float, 3> alone_lse({index_t{1}, heads, length});
    heed::attention(rows_of(query, first, length), rows_of(key, first, length), rows_of(value, first, length),
                    heed::into(alone).lse(alone_lse), heed::causal{});
    for (index_t h = 0; h < heads; ++h) {
      for (index_t row = 0; row < length; ++row) {
        worst = std::fmax(worst, std::fabs(alone_lse(0, h, row) - lse(0, h, first + row)));
        for (index_t d = 0; d < head_dim; ++d) {
          worst = std::fmax(worst, std::fabs(alone(0, h, row, d) - out(0, h, first + row, d)));
        }
      }
    }
    std::printf("tokens %3d to %3d: largest difference so far %.1e\n", static_cast<int>(first),
                static_cast<int>(first + length - 1), worst);
    first += length;
  }
  if (!(worst < 2e-6)) {
    std::printf("MISMATCH: a document is not what it is alone\n");
    return 1;
  }
  std::printf("%d documents in one row, each as if it were alone\n", static_cast<int>(lengths.size()));
  return 0;
}
