// ALiBi: no position embeddings; each head takes away slope * distance from its scores, each with a slope of its own,
// so that some heads look around them and others far back.
//
// Prints slopes and how far the heads look. Expected last line: "a key one token farther weighs exp(-slope) as much".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <vector>

using heed::index_t;
constexpr index_t heads = 6, seq_len = 512, head_dim = 16;

int fail(char const* what, index_t head) {
  std::printf("MISMATCH: %s, head %d\n", what, static_cast<int>(head));
  return 1;
}

int main() {
  // The slopes of the paper, for any number of heads; a model that has its own gives those.
  const std::vector<float> slopes = heed::alibi_slopes(heads);

  // All queries are 0: what the tokens say does not matter, only where they stand. The values are positions, so that
  // what a head returns is the mean position that it looks at.
  heed::tensor<float, 4> query({index_t{1}, heads, seq_len, head_dim}), key = query;
  heed::tensor<float, 4> value({index_t{1}, heads, seq_len, index_t{1}});
  for (index_t h = 0; h < heads; ++h) {
    for (index_t j = 0; j < seq_len; ++j) value(0, h, j, 0) = static_cast<float>(j);
  }
  const auto rule = heed::causal{} & heed::alibi{.slopes = slopes};
  auto [out, weights] = heed::attention_with_weights(query, key, value, rule);

  const index_t last = seq_len - 1;
  for (index_t h = 0; h < heads; ++h) {
    const double slope = slopes[static_cast<std::size_t>(h)];
    const double looks_back = static_cast<double>(last) - out(0, h, last, 0);
    std::printf("head %d: slope %.5f, on average %6.1f tokens back\n", static_cast<int>(h), slope, looks_back);

    // A geometric series, so all of it is known in closed form.
    const double ratio = std::exp(-slope);
    double sum = 0, expected = 0;
    for (index_t distance = 0; distance < seq_len; ++distance) {
      const double term = std::pow(ratio, static_cast<double>(distance));
      sum += term;
      expected += term * static_cast<double>(distance);
    }
    if (!(std::fabs(looks_back - expected / sum) < 1e-3)) return fail("another mean distance", h);
    for (index_t distance = 0; distance < 20; ++distance) {
      const double weight = weights(0, h, last, last - distance);
      if (!(std::fabs(weight - std::pow(ratio, static_cast<double>(distance)) / sum) < 1e-6)) {
        return fail("another weight", h);
      }
    }
  }

  // A token that is generated stands at the last key by itself: the distances are right without being told.
  const heed::tensor_view<float const, 4> token(query.data(), {index_t{1}, heads, index_t{1}, head_dim},
                                                {query.stride(0), query.stride(1), query.stride(2), 1});
  const auto step = heed::attention(token, key, value, rule);
  for (index_t h = 0; h < heads; ++h) {
    if (!(std::fabs(step(0, h, 0, 0) - out(0, h, last, 0)) < 1e-3f)) return fail("a step looks elsewhere", h);
  }
  std::printf("a key one token farther weighs exp(-slope) as much\n");
  return 0;
}
