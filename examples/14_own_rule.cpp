// Rules of your own: a functor says who sees whom, and runs inside the kernel like any rule of the library. Here the
// edges of a graph, and the neighbourhood of patches in an image, which also says what it knows of whole blocks.
//
// Writes 14_own_rule.svg, or the file that is given: where one patch looks, on the image. Expected last line:
// "a node sees its neighbours, a patch the 7 x 7 around it".
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <heed/analysis/heatmap.hpp>
#include <heed/heed.hpp>
#include <string>

using heed::index_t;
constexpr index_t side = 24, patches = side * side, radius = 3, head_dim = 16;

heed::tensor<float, 4> wavy(index_t seq_len, double phase) {
  heed::tensor<float, 4> filled({index_t{1}, index_t{1}, seq_len, head_dim});
  for (index_t i = 0; i < filled.size(); ++i) {
    filled.data()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i * i % 1013)));
  }
  return filled;
}

index_t apart(index_t one, index_t other) { return one > other ? one - other : other - one; }

int fail(char const* what, index_t row) {
  std::printf("MISMATCH: %s, row %d\n", what, static_cast<int>(row));
  return 1;
}

// Petersen's graph as a bit for each edge. The lambda captures numbers and pointers only, so it is copied.
int attend_to_neighbours() {
  constexpr index_t nodes = 10;
  std::uint64_t edges[nodes] = {};
  const auto connect = [&](index_t a, index_t b) {
    edges[a] |= std::uint64_t{1} << b;
    edges[b] |= std::uint64_t{1} << a;
  };
  for (index_t i = 0; i < 5; ++i) connect(i, (i + 1) % 5), connect(i, i + 5), connect(i + 5, (i + 2) % 5 + 5);

  const auto features = wavy(nodes, 0.0);
  const auto is_edge = [rows = &edges[0]](heed::position at) { return ((rows[at.query] >> at.key) & 1) != 0; };
  auto [out, weights] = heed::attention_with_weights(features, features, features, heed::mask_fn(is_edge));

  for (index_t i = 0; i < nodes; ++i) {
    int seen = 0;
    for (index_t j = 0; j < nodes; ++j) {
      const bool visible = weights(0, 0, i, j) > 0;
      if (visible != (((edges[i] >> j) & 1) != 0)) return fail("a node sees more or less than its neighbours", i);
      seen += visible ? 1 : 0;
    }
    if (seen != 3) return fail("a node of this graph has three neighbours", i);
  }
  std::printf("graph: %d nodes see 3 neighbours each\n", static_cast<int>(nodes));
  return 0;
}

int main(int argc, char** argv) {
  if (attend_to_neighbours() != 0) return 1;

  // Patch i lies in line i / side and column i % side. Lines that are too far apart hide whole blocks.
  const auto is_around = [](heed::position at) {
    const index_t down = at.key / side - at.query / side, right = at.key % side - at.query % side;
    return (down >= -radius) & (down <= radius) & (right >= -radius) & (right <= radius);
  };
  const auto covers = [](heed::block area) {
    const bool above = (area.key_end - 1) / side < area.query_begin / side - radius;
    const bool below = area.key_begin / side > (area.query_end - 1) / side + radius;
    return above || below ? heed::cover::none : heed::cover::partial;
  };
  const auto rule = heed::mask_fn(is_around, covers);

  const auto query = wavy(patches, 0.0), key = wavy(patches, 1.0), value = wavy(patches, 2.0);
  auto [out, weights] = heed::attention_with_weights(query, key, value, rule);

  const std::string plan = heed::explain(query, key, value, rule);
  const std::size_t line = plan.find("blocks: ");
  std::printf("image: %s\n", plan.substr(line, plan.find('\n', line) - line).c_str());
  for (index_t i = 0; i < patches; ++i) {
    double by_hand = 0, sum = 0;
    for (index_t j = 0; j < patches; ++j) {
      const bool around = apart(i / side, j / side) <= radius && apart(i % side, j % side) <= radius;
      if ((weights(0, 0, i, j) > 0) != around) return fail("a patch sees more or less than those around it", i);
      if (!around) continue;
      double score = 0;
      for (index_t d = 0; d < head_dim; ++d) score += static_cast<double>(query(0, 0, i, d)) * key(0, 0, j, d);
      const double share = std::exp(score / std::sqrt(static_cast<double>(head_dim)));
      sum += share;
      by_hand += share * value(0, 0, j, 0);
    }
    if (!(std::fabs(by_hand / sum - out(0, 0, i, 0)) < 1e-5)) return fail("another output", i);
  }

  // The weights of one patch, seen as the image that they lie on: a view is all it takes.
  const heed::tensor_view<float const, 4> seen(&weights(0, 0, 10 * side + 5, 0), {index_t{1}, index_t{1}, side, side});
  const std::string picture = heed::heatmap(seen, {.title = "Where the patch in line 10, column 5 looks"});
  char const* const path = argc > 1 ? argv[1] : "14_own_rule.svg";
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr || std::fputs(picture.c_str(), file) < 0 || std::fclose(file) != 0) return fail(path, 0);
  std::printf("%s: where one patch looks\n", path);
  std::printf("a node sees its neighbours, a patch the 7 x 7 around it\n");
  return 0;
}
