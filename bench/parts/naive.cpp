#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/baselines.hpp"

namespace bench {

void naive_loops(head_block const& on) {
  const float scale = 1 / std::sqrt(static_cast<float>(on.dim));
  std::vector<float> weight(static_cast<std::size_t>(on.rows));
  for (std::ptrdiff_t head = 0; head < on.heads; ++head) {
    const std::ptrdiff_t begin = head * on.rows * on.dim;
    for (std::ptrdiff_t row = 0; row < on.rows; ++row) {
      float const* const query = on.query + begin + row * on.dim;
      float* const out = on.out + begin + row * on.dim;
      for (std::size_t k = 0; k < weight.size(); ++k) {
        float const* const key = on.key + begin + static_cast<std::ptrdiff_t>(k) * on.dim;
        float score = 0;
        for (std::ptrdiff_t d = 0; d < on.dim; ++d) score += query[d] * key[d];
        weight[k] = score * scale;
      }
      const float largest = *std::max_element(weight.begin(), weight.end());
      float sum = 0;
      for (float& one : weight) sum += one = std::exp(one - largest);
      std::fill_n(out, on.dim, 0.0f);
      for (std::size_t k = 0; k < weight.size(); ++k) {
        float const* const value = on.value + begin + static_cast<std::ptrdiff_t>(k) * on.dim;
        for (std::ptrdiff_t d = 0; d < on.dim; ++d) out[d] += weight[k] / sum * value[d];
      }
    }
  }
}

}  // namespace bench
