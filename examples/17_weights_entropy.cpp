// Weights, scores and the entropy of a real layer: which heads of MiniLM look at one token, and which at all of them.
//
// Reads examples/data, or the folder that is given; writes 17_weights_entropy.svg. Expected last line: "weights as
// recorded, entropies the same by both ways".
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <heed/analysis/heatmap.hpp>
#include <heed/heed.hpp>
#include <heed/interop/npy.hpp>
#include <limits>
#include <string>
#include <vector>

using heed::index_t;

#if !defined(HEED_EXAMPLE_DATA_DIR)
#define HEED_EXAMPLE_DATA_DIR "examples/data"
#endif

int fail(char const* what) {
  std::printf("MISMATCH: %s\n", what);
  return 1;
}

int show(std::string const& folder) {
  const std::string layer = folder + "/minilm/layer4/";
  const auto query = heed::load_npy(layer + "query.npy").as<float, 3>();  // [batch, seq_len, heads * head_dim]
  const auto key = heed::load_npy(layer + "key.npy").as<float, 3>();
  const auto value = heed::load_npy(layer + "value.npy").as<float, 3>();
  const auto recorded = heed::load_npy(layer + "weights.npy").as<float, 4>();
  const auto lengths = heed::load_npy(folder + "/minilm/lengths.npy").as<index_t, 1>();
  const index_t batch_size = query.extent(0), seq_len = query.extent(1), heads = 12;

  // Everything that a call can tell, from the one pass over the tiles.
  heed::tensor<float, 4> out({batch_size, heads, seq_len, query.extent(2) / heads});
  heed::tensor<float, 3> lse({batch_size, heads, seq_len});
  heed::tensor<float, 4> weights({batch_size, heads, seq_len, seq_len}), scores = weights;
  heed::attention(heed::split_heads(query.view(), heads), heed::split_heads(key.view(), heads),
                  heed::split_heads(value.view(), heads),
                  heed::into(out).lse(lse).weights(weights).scores(scores, heed::score_stage::biased),
                  heed::lengths{.key = lengths});

  double worst_weight = 0, worst_entropy = 0;
  for (index_t i = 0; i < weights.size(); ++i) {
    worst_weight = std::fmax(worst_weight, std::fabs(weights.data()[i] - recorded.data()[i]));
  }
  std::printf("head  bits  looks at so many tokens, on average over three sentences\n");
  index_t narrowest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (index_t h = 0; h < heads; ++h) {
    double bits = 0, rows = 0;
    for (index_t b = 0; b < batch_size; ++b) {
      for (index_t i = 0; i < lengths(b); ++i) {
        // The entropy of a row is -sum w log w; or its lse less the mean score, since log w = score - lse.
        double by_weights = 0, mean_score = 0;
        for (index_t j = 0; j < seq_len; ++j) {
          const double weight = weights(b, h, i, j);
          if (j >= lengths(b) && (weight != 0 || !std::isinf(scores(b, h, i, j)))) return fail("padding is visible");
          if (weight > 0) by_weights -= weight * std::log(weight), mean_score += weight * scores(b, h, i, j);
        }
        worst_entropy = std::fmax(worst_entropy, std::fabs(by_weights - (lse(b, h, i) - mean_score)));
        bits += by_weights / std::log(2.0);
        rows += 1;
      }
    }
    bits /= rows;
    std::printf("%4d  %.2f  %.1f\n", static_cast<int>(h), bits, std::exp2(bits));
    if (bits < least) least = bits, narrowest = h;
  }
  std::printf("weights differ by %.1e from those recorded, entropies by %.1e\n", worst_weight, worst_entropy);
  if (!(worst_weight < 2e-6)) return fail("the weights are not those recorded");
  if (!(worst_entropy < 1e-5)) return fail("the entropies differ");

  // The first sentence, with its tokens on both sides.
  std::ifstream file_of_tokens(folder + "/minilm/tokens.txt");
  std::vector<std::string> tokens(static_cast<std::size_t>(seq_len));
  for (std::string& token : tokens) file_of_tokens >> token;
  char const* const path = "17_weights_entropy.svg";
  const std::string picture = heed::heatmap(weights, {.head = narrowest,
                                                      .query_labels = tokens,
                                                      .key_labels = tokens,
                                                      .title = "MiniLM, layer 4: the head that looks at least"});
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr || std::fputs(picture.c_str(), file) < 0 || std::fclose(file) != 0) return fail(path);
  std::printf("%s: head %d\n", path, static_cast<int>(narrowest));
  std::printf("weights as recorded, entropies the same by both ways\n");
  return 0;
}

int main(int argc, char** argv) {
  try {
    return show(argc > 1 ? argv[1] : HEED_EXAMPLE_DATA_DIR);
  } catch (std::exception const& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
