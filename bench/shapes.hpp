// The shapes that are measured, and what a call on one of them costs.
#pragma once

#include <string>

#include "heed/heed.hpp"

namespace bench {

enum class layout { bhsd, bshd };

/// One call of self-attention: as many keys as queries.
struct shape {
  heed::index_t batch_size = 1;
  heed::index_t num_heads = 1;
  heed::index_t num_kv_heads = 1;
  heed::index_t seq_len = 0;
  heed::index_t head_dim = 0;
  bool is_causal = false;
  bench::layout layout = layout::bhsd;
  int threads = 1;

  /// Additions and multiplications; causal attention needs half of them.
  double flops() const {
    const double scores = static_cast<double>(batch_size * num_heads) * static_cast<double>(seq_len * seq_len);
    return scores * 4.0 * static_cast<double>(head_dim) * (is_causal ? 0.5 : 1.0);
  }

  /// "full/S2048/D64/H1", with what is unusual at the end.
  std::string name() const {
    std::string text = is_causal ? "causal" : "full";
    text += "/S" + std::to_string(seq_len) + "/D" + std::to_string(head_dim);
    if (batch_size != 1) text += "/B" + std::to_string(batch_size);
    text += "/H" + std::to_string(num_heads);
    if (num_kv_heads != num_heads) text += "over" + std::to_string(num_kv_heads);
    if (layout == layout::bshd) text += "/bshd";
    if (threads != 1) text += "/threads" + std::to_string(threads);
    return text;
  }
};

}  // namespace bench
