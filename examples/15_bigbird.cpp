// BigBird: of 64 x 64 blocks of scores only some are visible: those around the diagonal, the first two in every row and
// column, and three drawn at random for each row of blocks. Hidden blocks are never computed.
//
// Writes 15_bigbird.svg, or the file that is given. Expected last line: "every visible block and no other".
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <heed/analysis/heatmap.hpp>
#include <heed/heed.hpp>
#include <string>

using heed::index_t;
constexpr index_t seq_len = 2048, head_dim = 16, block = 64, blocks = seq_len / block;

heed::tensor<float, 2> wavy(double phase) {
  heed::tensor<float, 2> filled({seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 1013)));
  }
  return filled;
}

// The number behind a name in what explain says.
double number_in(std::string const& plan, char const* name) {
  return std::strtod(plan.c_str() + plan.find(name) + std::string(name).size(), nullptr);
}

int fail(char const* what, index_t row) {
  std::printf("MISMATCH: %s, row %d\n", what, static_cast<int>(row));
  return 1;
}

int main(int argc, char** argv) {
  // One map for all heads and batch items here; it may have axes for them. The same seed gives the same map anywhere.
  const heed::tensor<bool, 2> map =
      heed::bigbird_blocks(blocks, blocks, {.local = 3, .global = 2, .random = 3, .seed = 1});
  const heed::block_sparse rule{.blocks = map, .block_rows = block, .block_keys = block};

  const auto query = wavy(0.0), key = wavy(1.0), value = wavy(2.0);
  auto [out, weights] = heed::attention_with_weights(query, key, value, rule);

  index_t visible = 0;
  for (index_t r = 0; r < blocks; ++r) {
    for (index_t c = 0; c < blocks; ++c) {
      std::printf("%s", map(r, c) ? "#" : ".");
      visible += map(r, c) ? 1 : 0;
    }
    std::printf("\n");
  }

  const std::string plan = heed::explain(query, key, value, rule);
  const double skipped = number_in(plan, "skipped "), full = number_in(plan, "full "),
               partial = number_in(plan, "partial ");
  const double share = static_cast<double>(visible) / static_cast<double>(blocks * blocks);
  const double computed = number_in(plan, "flops: ") / (4.0 * head_dim * seq_len * seq_len);
  std::printf(
      "%.1f %% of the map is visible; %.1f %% of the kernel's blocks are not skipped, %.1f %% of the scores "
      "are computed\n",
      100 * share, 100 * (full + partial) / (skipped + full + partial), 100 * computed);
  if (!(computed >= share && computed < 1.01 * share)) return fail("hidden blocks are computed", 0);

  for (index_t i = 0; i < seq_len; ++i) {
    double by_hand = 0, sum = 0;
    for (index_t j = 0; j < seq_len; ++j) {
      if ((weights(0, 0, i, j) > 0) != map(i / block, j / block)) return fail("another score is visible", i);
      if (!map(i / block, j / block)) continue;
      double score = 0;
      for (index_t d = 0; d < head_dim; ++d) score += static_cast<double>(query(i, d)) * key(j, d);
      const double part = std::exp(score / std::sqrt(static_cast<double>(head_dim)));
      sum += part;
      by_hand += part * value(j, 0);
    }
    if (!(std::fabs(by_hand / sum - out(0, 0, i, 0)) < 1e-5)) return fail("another output", i);
  }

  const std::string picture =
      heed::heatmap(weights, {.head = 0, .title = "BigBird: 3 local, 2 global, 3 random blocks of 64"});
  char const* const path = argc > 1 ? argv[1] : "15_bigbird.svg";
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr || std::fputs(picture.c_str(), file) < 0 || std::fclose(file) != 0) return fail(path, 0);
  std::printf("%s: the weights\n", path);
  std::printf("every visible block and no other\n");
  return 0;
}
