// Tensors of the operators as heed's views: [batch, row, head * dim] or [batch, head, row, dim] in memory.
#pragma once

#include <algorithm>
#include <limits>

#include "heed/heed.hpp"
#include "heed/interop/npy.hpp"

namespace operators {

using heed::index_t;
using heed::tensor;
using heed::tensor_view;

struct extents {
  index_t batch, heads, rows, dim;
};

[[nodiscard]] inline extents extents_of(heed::npy_array const& array, index_t heads) {
  if (array.rank() == 3) return {array.shape[0], heads, array.shape[1], array.shape[2] / heads};
  return {array.shape.at(0), array.shape.at(1), array.shape.at(2), array.shape.at(3)};
}

/// Calls `visit` with the array seen as [batch, head, row, dim].
template <class T, class Visitor>
void with_heads(heed::npy_array const& array, index_t heads, Visitor const& visit) {
  if (array.rank() == 3) {
    const tensor<T, 3> flat = array.as<T, 3>();
    return visit(heed::split_heads(flat, heads));
  }
  const tensor<T, 4> whole = array.as<T, 4>();
  visit(whole.view());
}

/// Memory in the operator's layout, and what heed gets.
template <class T>
struct stored {
  tensor<T, 4> memory;
  tensor_view<T, 4> view;

  /// NaN everywhere: what nothing may read, and what an output must replace.
  stored(bool is_flat, extents size)
      : memory({size.batch, is_flat ? size.rows : size.heads, is_flat ? size.heads : size.rows, size.dim}) {
    std::fill_n(memory.data(), memory.size(), static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    view = is_flat ? heed::split_heads(tensor_view<T, 3>(memory.data(), {size.batch, size.rows, size.heads * size.dim}),
                                       size.heads)
                   : memory.view();
  }

  /// Copies the array's rows, the first of them to row `first`.
  void put(heed::npy_array const& array, index_t first) {
    with_heads<T>(array, view.extent(1), [&](tensor_view<T const, 4> from) {
      for (index_t b = 0; b < from.extent(0); ++b) {
        for (index_t h = 0; h < from.extent(1); ++h) {
          for (index_t i = 0; i < from.extent(2); ++i) {
            for (index_t d = 0; d < from.extent(3); ++d) view(b, h, first + i, d) = from(b, h, i, d);
          }
        }
      }
    });
  }

  /// Some of the rows, where they lie.
  [[nodiscard]] tensor_view<T const, 4> rows(index_t begin, index_t end) const {
    return {view.data() + begin * view.stride(2),
            {view.extent(0), view.extent(1), end - begin, view.extent(3)},
            {view.stride(0), view.stride(1), view.stride(2), view.stride(3)}};
  }
};

}  // namespace operators
