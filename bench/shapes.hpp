// The shapes that are measured, and what a call on one of them costs.
#pragma once

#include <string>

#include "heed/base/index.hpp"

namespace bench {

enum class element { float32, bfloat16, float16, float64 };
enum class layout { bhsd, bshd };

inline char const* name_of(element type) {
  switch (type) {
    case element::bfloat16: return "bfloat16";
    case element::float16: return "half";
    case element::float64: return "double";
    default: return "float";
  }
}

/// One call. What is not said is self-attention of one head, in float.
struct shape {
  element type = element::float32;
  heed::index_t batch_size = 1;
  heed::index_t num_heads = 1;
  heed::index_t num_kv_heads = 0;  ///< 0: as many as num_heads
  heed::index_t query_len = 0;     ///< 0: as many as keys
  heed::index_t seq_len = 0;
  heed::index_t head_dim = 0;
  bool is_causal = false;
  bench::layout layout = layout::bhsd;
  int threads = 1;
  double query_scale = 1;  ///< on the numbers of query

  heed::index_t kv_heads() const { return num_kv_heads == 0 ? num_heads : num_kv_heads; }
  heed::index_t queries() const { return query_len == 0 ? seq_len : query_len; }
  double element_bytes() const {
    if (type == element::float64) return 8;
    return type == element::float32 ? 4 : 2;
  }

  /// Additions and multiplications; causal attention needs half of them.
  double flops() const {
    const double scores = static_cast<double>(batch_size * num_heads) * static_cast<double>(queries() * seq_len);
    return scores * 4.0 * static_cast<double>(head_dim) * (is_causal ? 0.5 : 1.0);
  }

  /// Memory that has to be read or written once: all operands.
  double bytes() const {
    const heed::index_t rows = 2 * (num_heads * queries() + kv_heads() * seq_len);
    return element_bytes() * static_cast<double>(batch_size * rows * head_dim);
  }

  /// "float/full/S2048/D64/H1", with what is unusual at the end. One query row is "decode".
  std::string name() const {
    std::string text = name_of(type);
    text += query_len == 1 ? "/decode" : is_causal ? "/causal" : "/full";
    text += "/S" + std::to_string(seq_len) + "/D" + std::to_string(head_dim);
    if (batch_size != 1) text += "/B" + std::to_string(batch_size);
    text += "/H" + std::to_string(num_heads);
    if (kv_heads() != num_heads) text += "over" + std::to_string(kv_heads());
    if (query_len > 1) text += "/Q" + std::to_string(query_len);
    if (layout == layout::bshd) text += "/bshd";
    if (query_scale != 1) text += "/queries_x" + std::to_string(static_cast<int>(query_scale));
    if (threads != 1) text += "/threads" + std::to_string(threads);
    return text;
  }
};

/// Four heads where a single one would be over in no time, one where it is not.
inline heed::index_t heads_for(heed::index_t seq_len) { return seq_len <= 1024 ? 4 : 1; }

}  // namespace bench
