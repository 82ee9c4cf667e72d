// Grouped-query attention while generating: 8 query heads share 2 key-value heads, and the cache grows by one token a
// step. Keys and values are never repeated or copied: query head h reads key-value head h / 4.
//
// Expected last line: "4 steps agree with the whole sequence; the cache holds 1/4 of the bytes".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <vector>

using heed::index_t;
constexpr index_t batch_size = 2, heads = 8, kv_heads = 2, head_dim = 16, capacity = 32, steps = 4;

// The number that a model would compute for this place.
float number(index_t item, index_t position, index_t head, index_t dim, double phase) {
  return static_cast<float>(std::sin(phase + static_cast<double>(item + 7 * position + 29 * head + 3 * dim * dim)));
}

// One token for every head: [batch, heads, 1, head_dim].
heed::tensor<float, 4> query_at(std::vector<index_t> const& position) {
  heed::tensor<float, 4> row({batch_size, heads, 1, head_dim});
  for (index_t b = 0; b < batch_size; ++b) {
    for (index_t h = 0; h < heads; ++h) {
      for (index_t d = 0; d < head_dim; ++d)
        row(b, h, 0, d) = number(b, position[static_cast<std::size_t>(b)], h, d, 0);
    }
  }
  return row;
}

void append(heed::tensor_view<float, 4> cache, index_t item, index_t position, double phase) {
  for (index_t h = 0; h < kv_heads; ++h) {
    for (index_t d = 0; d < head_dim; ++d) cache(item, h, position, d) = number(item, position, h, d, phase);
  }
}

int main() {
  // The cache lies as [batch, position, kv_head, dim]; bshd sees it as [batch, kv_head, position, dim].
  std::vector<float> key_memory(batch_size * capacity * kv_heads * head_dim), value_memory(key_memory.size());
  const auto key = heed::bshd(key_memory.data(), batch_size, capacity, kv_heads, head_dim);
  const auto value = heed::bshd(value_memory.data(), batch_size, capacity, kv_heads, head_dim);

  // Two prompts of different lengths are in the cache already.
  std::vector<index_t> length = {10, 17};
  for (index_t b = 0; b < batch_size; ++b) {
    for (index_t p = 0; p < length[static_cast<std::size_t>(b)]; ++p) {
      append(key, b, p, 1);
      append(value, b, p, 2);
    }
  }

  // Each step: one new token a sequence, one row of queries against everything so far.
  std::vector<heed::tensor<float, 4>> generated;
  for (index_t step = 0; step < steps; ++step) {
    const auto query = query_at(length);
    for (index_t b = 0; b < batch_size; ++b) {
      const index_t position = length[static_cast<std::size_t>(b)]++;
      append(key, b, position, 1);
      append(value, b, position, 2);
    }
    generated.push_back(heed::attention(query, key, value, heed::causal{} & heed::lengths{.key = length}));
  }

  // The same by hand for the last steps: the whole sequence at once, with every key-value head repeated four times.
  double worst = 0;
  for (index_t b = 0; b < batch_size; ++b) {
    const index_t total = length[static_cast<std::size_t>(b)];
    heed::tensor<float, 4> query({index_t{1}, heads, total, head_dim}), repeated_key = query, repeated_value = query;
    for (index_t h = 0; h < heads; ++h) {
      for (index_t p = 0; p < total; ++p) {
        for (index_t d = 0; d < head_dim; ++d) {
          query(0, h, p, d) = number(b, p, h, d, 0);
          repeated_key(0, h, p, d) = key(b, h / (heads / kv_heads), p, d);
          repeated_value(0, h, p, d) = value(b, h / (heads / kv_heads), p, d);
        }
      }
    }
    const auto whole = heed::attention(query, repeated_key, repeated_value, heed::causal{});
    for (index_t step = 0; step < steps; ++step) {
      for (index_t h = 0; h < heads; ++h) {
        for (index_t d = 0; d < head_dim; ++d) {
          const float stepwise = generated[static_cast<std::size_t>(step)](b, h, 0, d);
          worst = std::fmax(worst, std::fabs(stepwise - whole(0, h, total - steps + step, d)));
        }
      }
    }
  }
  std::printf("largest difference %.1e\n", worst);
  if (!(worst < 2e-6)) {
    std::printf("MISMATCH: a step differs from the row of the whole sequence\n");
    return 1;
  }
  std::printf("%d steps agree with the whole sequence; the cache holds 1/%d of the bytes\n", static_cast<int>(steps),
              static_cast<int>(heads / kv_heads));
  return 0;
}
