// Saliency: what the output of a token owes to each other token, in a real layer. Weights tell only where a token
// looks; gradient times input tells what would change if the key and the value of a token grew a little. It may be
// negative: weight that goes to [CLS] is weight that the others lack.
//
// Reads examples/data, or the folder that is given; writes 22_saliency.svg. Expected last line: "saliencies sum to what
// they explain".
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <heed/analysis/heatmap.hpp>
#include <heed/heed.hpp>
#include <heed/interop/npy.hpp>
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

// The sum of gradient times input of one token: [batch, seq_len, heads * head_dim].
double product(heed::tensor<float, 3> const& gradient, heed::tensor<float, 3> const& input, index_t batch,
               index_t row) {
  double sum = 0;
  for (index_t d = 0; d < input.extent(2); ++d) {
    sum += static_cast<double>(gradient(batch, row, d)) * static_cast<double>(input(batch, row, d));
  }
  return sum;
}

int show(std::string const& folder) {
  const std::string layer = folder + "/minilm/layer4/";
  const auto query = heed::load_npy(layer + "query.npy").as<float, 3>();
  const auto key = heed::load_npy(layer + "key.npy").as<float, 3>();
  const auto value = heed::load_npy(layer + "value.npy").as<float, 3>();
  const auto lengths = heed::load_npy(folder + "/minilm/lengths.npy").as<index_t, 1>();
  const index_t batch_size = query.extent(0), seq_len = query.extent(1), heads = 12;
  const std::vector<index_t> key_lengths(lengths.data(), lengths.data() + batch_size);
  const heed::lengths rule{.key = key_lengths};

  heed::tensor<float, 3> out = query, d_out = query, dq = query, dk = query, dv = query;  // of the same shape
  heed::tensor<float, 3> lse({batch_size, heads, seq_len});
  const auto q = heed::split_heads(query, heads), k = heed::split_heads(key, heads),
             v = heed::split_heads(value, heads);
  heed::attention(q, k, v, heed::into(heed::split_heads(out, heads)).lse(lse), rule);

  // For each token, half the square of its output, all heads together: its gradient with respect to the output of that
  // token is that output, and 0 for all others.
  heed::tensor<float, 4> saliency({batch_size, index_t{1}, seq_len, seq_len});
  double worst_value = 0, worst_score = 0;
  for (index_t i = 0; i < seq_len; ++i) {
    for (index_t b = 0; b < batch_size; ++b) {
      for (index_t r = 0; r < seq_len; ++r) {
        for (index_t d = 0; d < out.extent(2); ++d) d_out(b, r, d) = r == i ? out(b, r, d) : 0.0f;
      }
    }
    heed::attention_backward(
        q, k, v, heed::saved(heed::split_heads(out, heads), lse), heed::split_heads(d_out, heads),
        heed::gradients(heed::split_heads(dq, heads), heed::split_heads(dk, heads), heed::split_heads(dv, heads)),
        rule);
    for (index_t b = 0; b < batch_size; ++b) {
      const double square = product(out, out, b, i);
      double by_values = 0, by_keys = 0;
      for (index_t j = 0; j < seq_len; ++j) {
        const double of_value = product(dv, value, b, j), of_key = product(dk, key, b, j);
        if (j >= lengths(b) && (of_value != 0 || of_key != 0)) return fail("padding has a saliency");
        saliency(b, 0, i, j) = static_cast<float>((of_value + of_key) / square);
        by_values += of_value, by_keys += of_key;
      }
      // The output is linear in the values: their saliencies sum to all of it. Scores are products of query and key:
      // what the keys owe is what the query owes.
      worst_value = std::fmax(worst_value, std::fabs(by_values / square - 1));
      worst_score = std::fmax(worst_score, std::fabs(by_keys - product(dq, query, b, i)) / square);
    }
  }
  std::printf("values explain all but %.1e of the outputs; keys and queries differ by %.1e\n", worst_value,
              worst_score);
  if (!(worst_value < 1e-5)) return fail("the values do not explain the output");
  if (!(worst_score < 1e-5)) return fail("keys and queries explain different things");

  std::ifstream file_of_tokens(folder + "/minilm/tokens.txt");
  std::vector<std::string> tokens(static_cast<std::size_t>(seq_len));
  for (std::string& token : tokens) file_of_tokens >> token;
  for (index_t i = 0; i < seq_len; ++i) {
    index_t most = 0;
    for (index_t j = 1; j < seq_len; ++j) most = saliency(0, 0, i, j) > saliency(0, 0, i, most) ? j : most;
    std::printf("%8s  owes most to  %-8s %5.2f of its square\n", tokens[static_cast<std::size_t>(i)].c_str(),
                tokens[static_cast<std::size_t>(most)].c_str(), static_cast<double>(saliency(0, 0, i, most)));
  }
  char const* const path = "22_saliency.svg";
  const std::string picture = heed::heatmap(saliency, {.head = 0,
                                                       .query_labels = tokens,
                                                       .key_labels = tokens,
                                                       .title = "MiniLM, layer 4: what outputs owe to tokens",
                                                       .quantity = "gradient times input"});
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr || std::fputs(picture.c_str(), file) < 0 || std::fclose(file) != 0) return fail(path);
  std::printf("%s: the first sentence\n", path);
  std::printf("saliencies sum to what they explain\n");
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
