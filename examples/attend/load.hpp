// From the command line to a problem.
#pragma once

#include <charconv>
#include <heed/interop/npy.hpp>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "problem.hpp"

namespace attend {

inline heed::anchor anchor_of(std::string const& text) {
  if (text == "bottom-right") return heed::bottom_right;
  if (text == "top-left") return heed::top_left;
  index_t offset = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), offset);
  if (status != std::errc{} || end != text.data() + text.size()) {
    refuse("--anchor " + text + ": give bottom-right, top-left or a whole number");
  }
  return heed::at_offset(offset);
}

/// `query` is read already: its type has chosen T.
template <class T>
problem<T> load_problem(arguments const& given, heed::npy_array const& query) {
  const heed::npy_array key = heed::load_npy(given.key);
  const heed::npy_array value = heed::load_npy(given.value);
  const std::string layout = layout_of(given, query);
  const index_t heads = heads_of(query, "--query", layout, given.heads, 1);
  // Packed keys show how many heads they have by their width, because a key head is as wide as a query head.
  const index_t head_dim = query.rank() < 4 ? query.shape.back() / heads : 0;
  const bool fits = head_dim > 0 && key.rank() == query.rank() && key.shape.back() >= head_dim;
  const index_t fitting = fits ? key.shape.back() / head_dim : 1;
  const index_t kv_heads = heads_of(key, "--key", layout, given.kv_heads, fitting);
  const index_t value_heads = heads_of(value, "--value", layout, given.kv_heads, kv_heads);

  problem<T> job{.layout = layout,
                 .query = load_operand<T>(query, layout, heads),
                 .key = load_operand<T>(key, layout, kv_heads),
                 .value = load_operand<T>(value, layout, value_heads),
                 .key_lengths = {},
                 .mask = {},
                 .causal = given.causal,
                 .options = {.scale = given.scale, .anchor = anchor_of(given.anchor), .threads = given.threads}};
  if (!given.key_lengths.empty()) job.key_lengths = load_lengths(given.key_lengths);
  if (!given.key_lengths.empty() && job.key_lengths.empty() && job.batch_size() > 0) {
    refuse("--key-lengths " + given.key_lengths + ": it is empty; give one number for each batch item");
  }
  const std::string mask = given.keep + given.drop;  // one of them at most
  if (!mask.empty()) {
    job.mask = load_mask(mask, given.drop.empty(), {job.batch_size(), job.num_heads(), job.rows(), job.keys()});
  }
  if (given.batch < 0 || (given.batch >= job.batch_size() && job.batch_size() > 0)) {
    refuse("--batch " + std::to_string(given.batch) + ": there are " + std::to_string(job.batch_size()) +
           " batch items, counted from 0");
  }
  if (given.head && (*given.head < 0 || *given.head >= job.num_heads())) {
    refuse("--head " + std::to_string(*given.head) + ": there are " + std::to_string(job.num_heads()) +
           " heads, counted from 0");
  }
  return job;
}

/// What stands beside the rows and keys of one batch item: tokens where there are some, as far as the item goes.
struct axis_names {
  std::vector<std::string> query, key;
};

template <class T>
axis_names names_of(arguments const& given, problem<T> const& job) {
  const index_t length = job.key_length(given.batch);
  const bool same_tokens = job.rows() == job.keys();  // self-attention: row i is token i
  const index_t rows = same_tokens ? length : job.rows();
  std::vector<std::string> tokens;
  if (!given.tokens.empty()) {
    tokens = load_tokens(given.tokens, given.batch);
    const index_t count = static_cast<index_t>(tokens.size());
    if (count != job.keys() && count != length) {
      refuse("--tokens " + given.tokens + ": batch item " + std::to_string(given.batch) + " has " +
             std::to_string(count) + " tokens, but " + std::to_string(job.keys()) + " keys");
    }
  }
  const auto name = [&](index_t position, index_t otherwise) {
    const bool known = position >= 0 && position < static_cast<index_t>(tokens.size());
    if (known) return tokens[static_cast<std::size_t>(position)];
    return tokens.empty() ? std::to_string(otherwise) : "(" + std::to_string(otherwise) + ")";
  };
  axis_names names;
  for (index_t i = 0; i < rows; ++i) names.query.push_back(name(same_tokens ? i : i + job.offset(given.batch), i));
  for (index_t j = 0; j < length; ++j) names.key.push_back(name(j, j));
  return names;
}

}  // namespace attend
