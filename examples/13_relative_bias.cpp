// T5's relative bias: a learned number for each bucket of distances and each head. Near distances have buckets of their
// own, far ones share them. T5 does not scale its scores, hence scale = 1.
//
// Prints the buckets. Expected last line: "an encoder layer agrees with plain loops". A decoder layer writes
// `heed::causal{} & heed::relative_bias{.table = table, .bidirectional = false}`.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <heed/heed.hpp>

using heed::index_t;
constexpr index_t heads = 4, seq_len = 200, head_dim = 16, buckets = 32, max_distance = 128;

heed::tensor<float, 4> wavy(double phase) {
  heed::tensor<float, 4> filled({index_t{1}, heads, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(0.5 * std::sin(phase + 0.7 * static_cast<double>(i * i % 1013)));
  }
  return filled;
}

// Transformers' _relative_position_bucket, for both directions.
index_t bucket_of(index_t ahead) {
  const index_t one_way = buckets / 2, exact = one_way / 2, side = ahead > 0 ? one_way : 0;
  const index_t distance = std::abs(ahead);
  if (distance < exact) return side + distance;
  const float farther = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact))) *
                        static_cast<float>(one_way - exact);
  return side + (std::min)(exact + static_cast<index_t>(farther), one_way - 1);
}

int main() {
  const auto query = wavy(0.0), key = wavy(1.0), value = wavy(2.0);
  heed::tensor<float, 2> table({buckets, heads});
  for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<float>(std::cos(static_cast<double>(i)));

  const auto out = heed::attention(query, key, value, heed::relative_bias{.table = table, .max_distance = max_distance},
                                   {.scale = 1.0});

  std::printf("distance");
  for (const index_t distance : {0, 1, 7, 8, 16, 32, 64, 127, 500}) std::printf(" %4d", static_cast<int>(distance));
  std::printf("\nbefore  ");
  for (const index_t distance : {0, 1, 7, 8, 16, 32, 64, 127, 500}) {
    std::printf(" %4d", static_cast<int>(bucket_of(-distance)));
  }
  std::printf("\nbehind  ");
  for (const index_t distance : {0, 1, 7, 8, 16, 32, 64, 127, 500}) {
    std::printf(" %4d", static_cast<int>(bucket_of(distance)));
  }
  std::printf("\n");

  double worst = 0;
  for (index_t h = 0; h < heads; ++h) {
    for (index_t i = 0; i < seq_len; ++i) {
      double sum = 0, by_hand[head_dim] = {};
      for (index_t j = 0; j < seq_len; ++j) {
        double score = static_cast<double>(table(bucket_of(j - i), h));
        for (index_t d = 0; d < head_dim; ++d) score += static_cast<double>(query(0, h, i, d)) * key(0, h, j, d);
        const double share = std::exp(score);
        sum += share;
        for (index_t d = 0; d < head_dim; ++d) by_hand[d] += share * value(0, h, j, d);
      }
      for (index_t d = 0; d < head_dim; ++d) worst = std::fmax(worst, std::fabs(by_hand[d] / sum - out(0, h, i, d)));
    }
  }
  std::printf("largest difference %.1e\n", worst);
  if (!(worst < 2e-6)) {
    std::printf("MISMATCH: an encoder layer differs from plain loops\n");
    return 1;
  }
  std::printf("an encoder layer agrees with plain loops\n");
  return 0;
}
