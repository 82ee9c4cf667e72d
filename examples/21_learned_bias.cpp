// Learning a relative bias from attention alone: a teacher attends with a table of T5 that nobody tells; a student with
// a table of zeros follows the gradient that attention_backward gives for it, until both attend alike.
//
// Prints the falling distance of the two. Expected last line: "the table is found again".
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>

using heed::index_t;
constexpr index_t heads = 4, seq_len = 64, head_dim = 16, buckets = 16, steps = 400;
constexpr float rate = 4;

heed::tensor<double, 4> wavy(double phase) {
  heed::tensor<double, 4> filled({index_t{1}, heads, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = std::sin(phase + 0.7 * static_cast<double>(i * i % 1013));
  }
  return filled;
}

heed::relative_bias rule_of(heed::tensor<float, 2> const& table) { return {.table = table, .max_distance = seq_len}; }

int main() {
  const auto query = wavy(0.0), key = wavy(1.0);
  // With the identity as values, the same for all heads, the output of a row is its weights.
  heed::tensor<double, 2> identity({seq_len, seq_len});
  for (index_t i = 0; i < seq_len; ++i) identity(i, i) = 1;
  const heed::tensor_view<double const, 4> value(identity.data(), {index_t{1}, heads, seq_len, seq_len},
                                                 {0, 0, seq_len, 1});

  heed::tensor<float, 2> secret({buckets, heads}), table = secret, d_table = secret;
  for (index_t i = 0; i < secret.size(); ++i) {
    secret.data()[i] = static_cast<float>(std::cos(1.7 * static_cast<double>(i)));
  }
  const auto target = heed::attention(query, key, value, rule_of(secret));

  heed::tensor<double, 4> out = target, d_out = target;
  heed::tensor<double, 3> lse({index_t{1}, heads, seq_len});
  double first = 0, distance = 0;
  for (index_t step = 0; step <= steps; ++step) {
    heed::attention(query, key, value, heed::into(out).lse(lse), rule_of(table));
    // Kullback and Leibler's distance, for a mean row: the sum of target log(target / out).
    distance = 0;
    for (index_t i = 0; i < out.size(); ++i) {
      const double wanted = target.data()[i], found = out.data()[i];
      distance += wanted * std::log(wanted / found) / seq_len;
      d_out.data()[i] = -wanted / found / seq_len;
    }
    if (step == 0) first = distance;
    if (step % (steps / 8) == 0) std::printf("step %3d  distance %.2e\n", static_cast<int>(step), distance);
    heed::attention_backward(query, key, value, heed::saved(out, lse), d_out,
                             heed::gradients(nullptr, nullptr, nullptr).table(d_table), rule_of(table));
    for (index_t i = 0; i < table.size(); ++i) table.data()[i] -= rate * d_table.data()[i];
  }

  // What is added to all scores of a row changes no weight, so a head's numbers are found up to one of their own. A
  // bucket that no distance falls into has no gradient: keys behind the row are at least 1 away.
  constexpr index_t unused = buckets / 2;
  double worst = 0;
  for (index_t h = 0; h < heads; ++h) {
    const auto off = [&](index_t b) { return static_cast<double>(table(b, h) - secret(b, h)); };
    double mean = 0;
    for (index_t b = 0; b < buckets; ++b) mean += b == unused ? 0 : off(b) / (buckets - 1);
    for (index_t b = 0; b < buckets; ++b) worst = std::fmax(worst, b == unused ? 0 : std::fabs(off(b) - mean));
    if (table(unused, h) != 0) worst = INFINITY;
  }
  std::printf("largest difference of the tables %.1e\n", worst);
  if (!(distance < 1e-4 * first && worst < 0.01)) {
    std::printf("MISMATCH: the student attends otherwise\n");
    return 1;
  }
  std::printf("the table is found again\n");
  return 0;
}
