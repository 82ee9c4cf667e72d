// A window over a long text: each token sees itself and the 255 before it, so the cost grows with the text, not with
// its square. What lies outside of the window is never read.
//
// Prints what share of the scores is computed. Expected last line: "a token needs the last 256 keys and no others".
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <heed/heed.hpp>
#include <string>

using heed::index_t;
constexpr index_t heads = 2, seq_len = 4096, head_dim = 32, left = 255;

heed::tensor<float, 4> wavy(double phase) {
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

// The number behind a name in what explain says.
double number_in(std::string const& plan, char const* name) {
  return std::strtod(plan.c_str() + plan.find(name) + std::string(name).size(), nullptr);
}

int fail(char const* what, index_t row) {
  std::printf("MISMATCH: %s, row %d\n", what, static_cast<int>(row));
  return 1;
}

int main() {
  const auto query = wavy(0.0), key = wavy(1.0);
  auto value = wavy(2.0);
  const auto rule = heed::causal{} & heed::window{.left = left};
  const auto out = heed::attention(query, key, value, rule);

  const double all_flops = 2.0 * heads * seq_len * seq_len * 2 * head_dim;
  const std::string plan = heed::explain(query, key, value, rule);
  const double share = number_in(plan, "flops: ") / all_flops;
  std::printf("%d tokens, window of %d: %.1f %% of the scores are computed, %.1f %% are visible\n",
              static_cast<int>(seq_len), static_cast<int>(left) + 1, 100 * share,
              100 * static_cast<double>(left + 1) / static_cast<double>(seq_len));
  if (!(share < 0.08)) return fail("too much is computed", 0);

  // A generator keeps a cache of the last 256 keys: one query row at its end sees the same. Anchored at the last key,
  // as by default, the same rule holds there.
  for (const index_t row : {0, 1, 255, 256, 257, 3000, 4095}) {
    const index_t first = row < left ? 0 : row - left, count = row - first + 1;
    const auto step =
        heed::attention(rows_of(query, row, 1), rows_of(key, first, count), rows_of(value, first, count), rule);
    for (index_t h = 0; h < heads; ++h) {
      for (index_t d = 0; d < head_dim; ++d) {
        if (!(std::fabs(step(0, h, 0, d) - out(0, h, row, d)) < 1e-5f)) return fail("the cache gives another row", row);
      }
    }
  }

  // And what has left the window may be anything: no bit of a later row changes.
  for (index_t h = 0; h < heads; ++h) {
    for (index_t d = 0; d < head_dim; ++d) value(0, h, 1000, d) = std::nanf("");
  }
  const auto forgotten = heed::attention(query, key, value, rule);
  for (index_t row = 0; row < seq_len; ++row) {
    const bool sees_it = row >= 1000 && row <= 1000 + left;
    if (std::isnan(forgotten(0, 1, row, 0)) != sees_it) return fail("the window has another end", row);
    if (!sees_it && forgotten(0, 1, row, 0) != out(0, 1, row, 0)) return fail("a hidden key changes a bit", row);
  }
  std::printf("a token needs the last %d keys and no others\n", static_cast<int>(left) + 1);
  return 0;
}
