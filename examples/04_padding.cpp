// Padded batches: sequences of different lengths in one buffer. What lies behind a length is never read.
//
// The padding is filled with NaN here. Expected last line: "no NaN came through; every sequence as if it were alone".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <limits>
#include <vector>

using heed::index_t;
constexpr index_t batch_size = 3, heads = 2, longest = 7, head_dim = 8;

constexpr float nothing = std::numeric_limits<float>::quiet_NaN();

float number(index_t item, index_t head, index_t row, index_t dim, double phase) {
  return static_cast<float>(std::sin(phase + static_cast<double>(17 * item + 5 * head + 3 * row * row + dim)));
}

// Sequence `item` in rows [first, first + lengths[item]) of its buffer, NaN in all others.
heed::tensor<float, 4> padded(std::vector<index_t> const& lengths, std::vector<index_t> const& first, double phase) {
  heed::tensor<float, 4> filled({batch_size, heads, longest, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = nothing;
  for (index_t item = 0; item < batch_size; ++item) {
    const auto at = static_cast<std::size_t>(item);
    for (index_t h = 0; h < heads; ++h) {
      for (index_t row = 0; row < lengths[at]; ++row) {
        for (index_t d = 0; d < head_dim; ++d) filled(item, h, first[at] + row, d) = number(item, h, row, d, phase);
      }
    }
  }
  return filled;
}

// The first `rows` rows of one batch item, as a batch of one.
heed::tensor_view<float const, 4> alone(heed::tensor<float, 4> const& all, index_t item, index_t rows) {
  return {&all(item, 0, 0, 0), {index_t{1}, heads, rows, head_dim}, {all.stride(0), all.stride(1), all.stride(2), 1}};
}

int fail(char const* what, index_t item) {
  std::printf("MISMATCH: %s in sequence %d\n", what, static_cast<int>(item));
  return 1;
}

int main() {
  const std::vector<index_t> lengths = {7, 3, 5}, zeros = {0, 0, 0};
  const auto query = padded(lengths, zeros, 0.0), key = padded(lengths, zeros, 1.0),
             value = padded(lengths, zeros, 2.0);

  // Padding behind: rows past a length come out as 0, their lse as -infinity.
  heed::tensor<float, 4> out({batch_size, heads, longest, head_dim});
  heed::tensor<float, 3> lse({batch_size, heads, longest});
  heed::attention(query, key, value, heed::into(out).lse(lse),
                  heed::causal{} & heed::lengths{.query = lengths, .key = lengths});

  for (index_t item = 0; item < batch_size; ++item) {
    const index_t length = lengths[static_cast<std::size_t>(item)];
    std::printf("sequence %d: %d of %d rows\n", static_cast<int>(item), static_cast<int>(length),
                static_cast<int>(longest));
    const auto single = heed::attention(alone(query, item, length), alone(key, item, length),
                                        alone(value, item, length), heed::causal{});
    for (index_t h = 0; h < heads; ++h) {
      for (index_t row = 0; row < longest; ++row) {
        if (row >= length && lse(item, h, row) != -std::numeric_limits<float>::infinity()) {
          return fail("lse of a padding row is not -infinity", item);
        }
        for (index_t d = 0; d < head_dim; ++d) {
          const float expected = row < length ? single(0, h, row, d) : 0.0f;
          if (out(item, h, row, d) != expected) return fail("a row differs from the sequence alone", item);
        }
      }
    }
  }

  // Padding in front, as batched generation has it: keys [key_start, key) exist. One new query row for each sequence.
  const std::vector<index_t> starts = {0, 4, 2}, ends = {7, 7, 7};
  const auto late_key = padded(lengths, starts, 1.0), late_value = padded(lengths, starts, 2.0);
  heed::tensor<float, 4> one_query({batch_size, heads, 1, head_dim});
  for (index_t i = 0; i < one_query.size(); ++i)
    one_query.data()[i] = static_cast<float>(std::cos(0.3 * static_cast<double>(i)));

  const auto behind = heed::attention(one_query, key, value, heed::lengths{.key = lengths});
  const auto in_front =
      heed::attention(one_query, late_key, late_value, heed::lengths{.key = ends, .key_start = starts});
  for (index_t i = 0; i < behind.size(); ++i) {
    if (!(std::fabs(behind.data()[i] - in_front.data()[i]) < 1e-6f)) {
      return fail("padding in front and behind differ", i / (heads * head_dim));
    }
  }
  std::printf("no NaN came through; every sequence as if it were alone\n");
  return 0;
}
