// The table of doors of one instruction set: everything above it is plain code that passes pointers and numbers.
#pragma once

#include "heed/base/element.hpp"
#include "heed/mask/mask.hpp"

namespace heed::detail {

/// The block verbs for one accumulate type. A tile is 1, 2 or 3 vectors of query rows; index `vectors - 1`.
/// Tiles are [.., vectors * lanes], aligned to whole vectors. The files in cpu/verb say what each verb does.
template <class T>
struct verbs {
  int lanes;  ///< query rows in one vector
  void (*scores[3])(T const* query, T const* key, index_t key_stride, index_t keys, index_t head_dim, T* scores,
                    T const* row_max, T* block_max);
  void (*softmax[3])(T* scores, index_t keys, T const* block_max, T* row_max, T* row_sum, T* rescale);
  void (*accumulate[3])(T const* probabilities, T const* value, index_t value_stride, index_t keys, index_t head_dim,
                        T* out, T const* rescale);
  void (*accumulate_visible)(T const* probabilities, T const* scores, T const* value, index_t value_stride,
                             index_t keys, index_t head_dim, int vectors, T* out, T const* rescale);
  void (*probabilities)(T* scores, index_t keys, int vectors, T const* row_max, T const* factor);
  bool (*finish)(T const* out, index_t head_dim, int vectors, T const* row_sum, T* factor);
  void (*pack_query)(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                     index_t columns, T scale, index_t lanes, T* to);
  void (*pack_rows)(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                    index_t columns, T* to);
  void (*unpack)(T const* from, T const* factor, index_t lanes, index_t rows, index_t columns, void* to,
                 element_kind kind, index_t row_stride, index_t column_stride);
};

/// The door of the one verb that is made anew for each rule; `rule` is the caller's, with its type forgotten.
template <class T>
using rule_verb = void (*)(void const* rule, T* scores, int vectors, block const& area, T const* row_max, T* block_max);

}  // namespace heed::detail
