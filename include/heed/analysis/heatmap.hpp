// heed::heatmap: attention weights as an SVG picture, one head or a grid of all.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "heed/analysis/heatmap_cells.hpp"
#include "heed/analysis/heatmap_picture.hpp"
#include "heed/base/element.hpp"
#include "heed/base/error.hpp"
#include "heed/view/tensor.hpp"

namespace heed {

/// What heatmap draws.
struct heatmap_options {
  index_t batch = 0;
  std::optional<index_t> head{};            ///< absent: a grid of all heads
  std::vector<std::string> query_labels{};  ///< UTF-8, one for each query; empty: row numbers
  std::vector<std::string> key_labels{};    ///< UTF-8, one for each key; empty: key numbers
  std::string title{};                      ///< empty: which batch item and head it is
  std::string quantity = "weight";          ///< what the numbers are: the heading of the scale
  bool linear = false;  ///< colours follow the numbers; else their square root (unless some are negative), so that
                        ///< small weights beside a large one are seen
};

namespace detail {
inline namespace HEED_ABI {

inline void heatmap_refuse(errc code, std::string const& text) { raise(code, "heed::heatmap: " + text); }

inline void check_index(char const* name, index_t value, char const* bound, index_t end) {
  if (value < 0 || value >= end) {
    heatmap_refuse(errc::index_out_of_range, std::string(name) + " (" + std::to_string(value) + ") must lie in [0, " +
                                                 bound + "=" + std::to_string(end) + ")");
  }
}

inline void check_labels(char const* name, std::size_t count, char const* axis, index_t extent) {
  if (count != 0 && static_cast<index_t>(count) != extent) {
    heatmap_refuse(errc::seq_len_mismatch, std::string(name) + " has " + std::to_string(count) +
                                               " labels; give one for each of the " + std::to_string(extent) + " of " +
                                               axis + ", or none");
  }
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// An SVG of attention weights (or scores): rows are queries, columns are keys, darker is more.
///
/// Shapes: weights [B, H, Sq, Skv], any float type and strides. Token labels stand on both axes and thin out where they
/// would touch; beyond 180 rows or keys (fewer in a grid) neighbours are pooled by their maximum, and the caption
/// says so. -inf (hidden scores) is hatched, NaN and +inf are red; both then stand in the legend. In a grid all heads
/// share one scale. Sq or Skv of 0 gives a picture that says so.
/// The same input gives the same text, in every locale. One thread; reads every weight of the heads drawn once.
/// Throws: heed::error: index_out_of_range, seq_len_mismatch (number of labels), null_data.
template <detail::tensor_like Weights>
[[nodiscard]] std::string heatmap(Weights const& weights, heatmap_options const& options = {}) {
  using element = typename Weights::value_type;
  static_assert(Weights::rank == 4, "heed::heatmap: weights must have rank 4, [batch, head, query, key]");
  static_assert(floating_element<element>, "heed::heatmap: weights must be of a float type");
  const tensor_view<element const, 4> view = weights;
  detail::check_index("batch", options.batch, "batch_size", view.extent(0));
  if (options.head) detail::check_index("head", *options.head, "num_heads", view.extent(1));
  detail::check_labels("query_labels", options.query_labels.size(), "seq_len_q", view.extent(2));
  detail::check_labels("key_labels", options.key_labels.size(), "seq_len_kv", view.extent(3));
  if (view.data() == nullptr && view.size() > 0) detail::heatmap_refuse(errc::null_data, "weights have no data");

  detail::heat_picture picture;
  picture.query_count = view.extent(2);
  picture.key_count = view.extent(3);
  picture.query_labels = options.query_labels;
  picture.key_labels = options.key_labels;
  picture.quantity = options.quantity;
  picture.linear = options.linear;
  const index_t first = options.head ? *options.head : 0;
  const index_t last = options.head ? first + 1 : view.extent(1);
  picture.is_grid = last - first != 1;
  picture.arrange(last - first);
  for (index_t head = first; head < last; ++head) {
    picture.add_head(head, detail::pool_cells(view, options.batch, head, picture.most_cells()));
  }
  picture.title = options.title;
  if (picture.title.empty()) {
    picture.title =
        "Attention, batch item " + std::to_string(options.batch) +
        (picture.is_grid ? ", all " + std::to_string(last - first) + " heads" : ", head " + std::to_string(first));
  }
  return picture.svg();
}

}  // namespace HEED_ABI
}  // namespace heed
