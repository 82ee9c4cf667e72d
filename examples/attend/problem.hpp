// One attention call in the types of its operands, and pieces of it.
#pragma once

#include <heed/heed.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inputs.hpp"

namespace attend {

struct range {
  index_t begin = 0, end = 0;
  index_t size() const { return end - begin; }
};

/// Some batch items, some query heads of whole groups (or one head), some query rows.
struct piece {
  range batch, head, row;
};

template <class X>
heed::tensor_view<X, 4> cut(heed::tensor_view<X, 4> const& view, piece const& at) {
  const range ranges[] = {at.batch, at.head, at.row};
  X* data = view.data();
  index_t extents[4] = {0, 0, 0, view.extent(3)};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    // A mask's axis of extent 1 serves every index.
    const bool repeats = view.extent(axis) == 1 && ranges[axis].end != 1;
    extents[axis] = repeats ? 1 : ranges[axis].size();
    if (!repeats && data != nullptr) data += ranges[axis].begin * view.stride(axis);
  }
  return {data,
          {extents[0], extents[1], extents[2], extents[3]},
          {view.stride(0), view.stride(1), view.stride(2), view.stride(3)}};
}

template <class T>
struct problem {
  std::string layout;
  operand<T> query, key, value;
  std::vector<index_t> key_lengths;  // empty: whole
  std::optional<heed::tensor<bool, 4>> mask;
  bool causal = false;
  heed::attention_options options;

  index_t batch_size() const { return query.view.extent(0); }
  index_t num_heads() const { return query.view.extent(1); }
  index_t rows() const { return query.view.extent(2); }
  index_t keys() const { return key.view.extent(2); }
  index_t group() const { return num_heads() / key.view.extent(1); }
  piece whole() const { return {{0, batch_size()}, {0, num_heads()}, {0, rows()}}; }
  index_t key_length(index_t batch) const {
    return key_lengths.empty() ? keys() : key_lengths[static_cast<std::size_t>(batch)];
  }
  /// Where row 0 of a batch item stands on the key axis.
  index_t offset(index_t batch) const { return options.anchor.offset(batch, rows(), key_length(batch)); }

  heed::tensor_view<T const, 4> queries(piece const& at) const { return cut<T const>(query.view, at); }
  heed::tensor_view<T const, 4> of_keys(operand<T> const& side, piece const& at) const {
    // The whole as it is: what does not fit together there is for the library to refuse.
    if (at.batch.size() == batch_size() && at.head.size() == num_heads()) return side.view;
    const range heads{at.head.begin / group(), (at.head.end + group() - 1) / group()};
    return cut<T const>(side.view, {at.batch, heads, {0, keys()}});
  }

  /// Calls f(query, key, value, rule, options) for a piece. Rows further down stand further right on the key axis.
  template <class F>
  void with(piece const& at, F const& f) const {
    std::vector<index_t> offsets;
    heed::attention_options placed = options;
    if (at.row.size() != rows()) {
      for (index_t b = at.batch.begin; b < at.batch.end; ++b) offsets.push_back(offset(b) + at.row.begin);
      placed.anchor = heed::at_offset(offsets);
    }
    heed::lengths lengths;
    if (!key_lengths.empty() && at.batch.size() == batch_size()) {
      lengths.key = key_lengths;  // however many there are: the library counts them
    } else if (!key_lengths.empty()) {
      const std::span<index_t const> all(key_lengths);
      lengths.key = all.subspan(static_cast<std::size_t>(at.batch.begin), static_cast<std::size_t>(at.batch.size()));
    }
    const auto go = [&](auto const& rule) { f(queries(at), of_keys(key, at), of_keys(value, at), rule, placed); };
    if (mask) {
      const heed::tensor_view<bool const, 4> seen = cut<bool const>(mask->view(), at);
      causal ? go(lengths & heed::causal{} & heed::keep_mask(seen)) : go(lengths & heed::keep_mask(seen));
    } else {
      causal ? go(lengths & heed::causal{}) : go(lengths & heed::no_mask{});
    }
  }
};

}  // namespace attend
