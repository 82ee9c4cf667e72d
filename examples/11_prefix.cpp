// A prefix language model: a prompt sees all of itself, in both directions, and the text behind it is causal. Two
// prompts of different lengths are in the batch.
//
// Prints who sees whom. Expected last line: "a prompt sees itself, the text behind it what came before".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <vector>

using heed::index_t;
constexpr index_t batch_size = 2, seq_len = 8, head_dim = 16;

heed::tensor<float, 3> wavy(double phase) {
  heed::tensor<float, 3> filled({batch_size, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 101)));
  }
  return filled;
}

int fail(char const* what) {
  std::printf("\nMISMATCH: %s\n", what);
  return 1;
}

int main() {
  const auto query = wavy(0.0), key = wavy(1.0), value = wavy(2.0);
  const std::vector<index_t> prompts = {3, 5};

  // prefix says it all. `causal{} & prefix{...}` would be causal: of joined masks all apply.
  auto [out, weights] = heed::attention_with_weights(query, key, value, heed::prefix{.lengths = prompts});

  for (index_t b = 0; b < batch_size; ++b) {
    const index_t prompt = prompts[static_cast<std::size_t>(b)];
    std::printf("prompt of %d tokens\n", static_cast<int>(prompt));
    for (index_t i = 0; i < seq_len; ++i) {
      double sum = 0;
      for (index_t j = 0; j < seq_len; ++j) {
        const float weight = weights(b, 0, i, j);
        sum += weight;
        std::printf(" %c", weight > 0 ? (j < prompt ? 'p' : 't') : '.');
        if ((weight > 0) != (j < prompt || j <= i)) return fail("another key is visible");
      }
      std::printf("\n");
      if (!(std::fabs(sum - 1) < 1e-6)) return fail("weights do not sum to 1");
    }
  }

  // Generating: the last token alone, with everything before it in the cache, is the last row of the whole.
  const heed::tensor_view<float const, 3> last(&query(0, seq_len - 1, 0), {batch_size, index_t{1}, head_dim},
                                               {query.stride(0), query.stride(1), 1});
  const auto step = heed::attention(last, key, value, heed::prefix{.lengths = prompts});
  for (index_t b = 0; b < batch_size; ++b) {
    for (index_t d = 0; d < head_dim; ++d) {
      if (!(std::fabs(step(b, 0, 0, d) - out(b, 0, seq_len - 1, d)) < 1e-6f)) return fail("a step gives another row");
    }
  }
  std::printf("a prompt sees itself, the text behind it what came before\n");
  return 0;
}
