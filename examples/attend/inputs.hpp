// The files of one call, read and seen as [batch, head, row, dim].
#pragma once

#include <fstream>
#include <heed/heed.hpp>
#include <heed/interop/npy.hpp>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"

namespace attend {

[[noreturn]] inline void refuse(std::string const& text) { throw heed::error(heed::errc::bad_file, text); }

/// Memory that holds a tensor in the layout of its file.
template <class T>
struct operand {
  heed::tensor<T, 1> data;
  heed::tensor_view<T, 4> view;
  std::vector<index_t> shape;

  operand(std::vector<index_t> file_shape, std::string const& layout, index_t heads)
      : data({count(file_shape)}), shape(std::move(file_shape)) {
    const index_t *const n = shape.data(), last = shape.back();
    if (layout == "bhsd") view = heed::bhsd(data.data(), n[0], n[1], n[2], n[3]);
    if (layout == "bshd") view = heed::bshd(data.data(), n[0], n[1], n[2], n[3]);
    if (layout == "bsd") view = heed::bshd(data.data(), n[0], n[1], heads, last / heads);
    if (layout == "sd") view = heed::bshd(data.data(), 1, n[0], heads, last / heads);
  }
  operand(operand&&) = default;  // moving keeps the memory where the view looks

  static index_t count(std::vector<index_t> const& extents) {
    index_t product = 1;
    for (index_t extent : extents) product = heed::detail::saturating_mul(product, extent);
    return product;
  }
};

inline std::string layout_of(arguments const& given, heed::npy_array const& query) {
  const std::string by_rank[] = {"", "", "sd", "bsd", "bhsd"};
  const std::string layout = !given.layout.empty() ? given.layout : by_rank[query.rank() < 5 ? query.rank() : 0];
  if (layout.empty()) refuse("--query " + query.name + ": a tensor has 2 to 4 axes, this one is " + query.shape_text());
  return layout;
}

/// How many heads `array` has; in [B, S, H*D] the caller must say.
inline index_t heads_of(heed::npy_array const& array, char const* flag, std::string const& layout,
                        std::optional<index_t> said, index_t otherwise) {
  const std::string what = std::string(flag) + " " + array.name + " " + array.shape_text();
  if (array.rank() != (layout == "sd" ? 2u : layout == "bsd" ? 3u : 4u)) {
    refuse(what + ": layout " + layout + " needs " +
           std::to_string(layout == "sd"    ? 2
                          : layout == "bsd" ? 3
                                            : 4) +
           " axes; choose another --layout");
  }
  const bool packed = layout == "bsd" || layout == "sd";
  const index_t heads = packed ? said.value_or(otherwise) : array.shape[layout == "bhsd" ? 1 : 2];
  if (said && *said != heads) {
    refuse(what + " has " + std::to_string(heads) + " heads, not " + std::to_string(*said) + "; leave the flag out");
  }
  if (heads < 1 || (packed && array.shape.back() % heads != 0)) {
    if (!packed) refuse(what + ": it has no heads");
    refuse(what + ": " + std::to_string(heads) + " heads do not divide its last extent; see --heads and --kv-heads");
  }
  return heads;
}

template <class T>
operand<T> load_operand(heed::npy_array array, std::string const& layout, index_t heads) {
  operand<T> loaded(array.shape, layout, heads);
  array.shape = {operand<T>::count(array.shape)};
  const auto values = array.as<T, 1>();
  for (index_t i = 0; i < values.size(); ++i) loaded.data(i) = values(i);
  return loaded;
}

inline std::vector<index_t> load_lengths(std::string const& path) {
  const auto list = heed::load_npy(path).as<index_t, 1>();
  return {list.data(), list.data() + list.size()};
}

/// A mask of any rank as [B or 1, H or 1, Sq or 1, Skv or 1], true = attend.
inline heed::tensor<bool, 4> load_mask(std::string const& path, bool keeps, std::vector<index_t> const& scores) {
  heed::npy_array array = heed::load_npy(path);
  const std::string shown = path + " " + array.shape_text();
  while (array.rank() < 4) array.shape.insert(array.shape.begin(), 1);
  heed::tensor<bool, 4> mask = array.as<bool, 4>();
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (mask.extent(axis) == 1 || mask.extent(axis) == scores[axis]) continue;
    refuse((keeps ? "--keep " : "--drop ") + shown + " does not broadcast to [batch, head, query, key] = " +
           heed::detail::npy_shape_text(scores) + "; axes align right, so one mask per batch item is (B, 1, Sq, Skv)");
  }
  for (index_t i = 0; i < mask.size(); ++i) mask.data()[i] = mask.data()[i] == keeps;
  return mask;
}

/// The tokens of one batch item.
inline std::vector<std::string> load_tokens(std::string const& path, index_t batch) {
  std::ifstream in(path);
  if (!in) refuse("--tokens " + path + ": cannot be read");
  std::string line;
  for (index_t number = 0; std::getline(in, line); ++number) {
    if (number < batch) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  refuse("--tokens " + path + ": it has no line for batch item " + std::to_string(batch));
}

}  // namespace attend
