// What one call is asked to do.
#pragma once

#include <heed/heed.hpp>
#include <optional>
#include <string>

namespace attend {

using heed::index_t;

struct arguments {
  std::string query, key, value;
  std::string layout;  // empty: by the number of axes
  std::optional<index_t> heads, kv_heads;
  bool causal = false;
  std::string anchor = "bottom-right";
  std::string key_lengths, keep, drop;
  std::optional<double> scale;
  std::string out, weights, lse;
  std::string picture, tokens;
  std::optional<index_t> head;
  index_t batch = 0;
  bool check = false;
  int threads = 0;
  bool explain = false;

  std::string title;     // of the picture; empty: the names of the files
  std::string recorded;  // a folder with the out, weights and lse that must come out; empty: none
  double allowed = 0;    // how far from them, over 1 + |value|
};

}  // namespace attend
