// The doors of the baseline: SSE2 on x86-64, NEON on aarch64; 16-byte vectors.
#pragma once

#include "heed/cpu/verb/accumulate.hpp"
#include "heed/cpu/verb/pack.hpp"
#include "heed/cpu/verb/rule.hpp"
#include "heed/cpu/verb/scores.hpp"
#include "heed/cpu/verb/softmax.hpp"
#include "heed/cpu/verbs.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
namespace v1 {

template <class T>
using pack = simd<T, 16 / static_cast<int>(sizeof(T))>;
#if defined(__aarch64__)
inline constexpr int tile_rows = 8;  // keys or value dimensions in one register tile: 32 registers
#else
inline constexpr int tile_rows = 4;  // 16 registers
#endif

template <class T, int Vectors>
HEED_DOOR_V1 void scores(T const* query, T const* key, index_t key_stride, index_t keys, index_t head_dim, T* to,
                         T const* row_max, T* block_max) {
  detail::scores<pack<T>, tile_rows, Vectors>(query, key, key_stride, keys, head_dim, to, row_max, block_max);
}
template <class T, int Vectors>
HEED_DOOR_V1 void softmax(T* scores, index_t keys, T const* block_max, T* row_max, T* row_sum, T* rescale) {
  detail::softmax<pack<T>, Vectors>(scores, keys, block_max, row_max, row_sum, rescale);
}
template <class T, int Vectors>
HEED_DOOR_V1 void accumulate(T const* probabilities, T const* value, index_t value_stride, index_t keys,
                             index_t head_dim, T* out, T const* rescale) {
  detail::accumulate<pack<T>, tile_rows, Vectors>(probabilities, value, value_stride, keys, head_dim, out, rescale);
}
template <class T>
HEED_DOOR_V1 void accumulate_visible(T const* probabilities, T const* scores, T const* value, index_t value_stride,
                                     index_t keys, index_t head_dim, int vectors, T* out, T const* rescale) {
  detail::accumulate_visible<pack<T>>(probabilities, scores, value, value_stride, keys, head_dim, vectors, out,
                                      rescale);
}
template <class T>
HEED_DOOR_V1 void probabilities(T* scores, index_t keys, int vectors, T const* row_max, T const* factor) {
  detail::probabilities<pack<T>>(scores, keys, vectors, row_max, factor);
}
template <class T>
HEED_DOOR_V1 bool finish(T const* out, index_t head_dim, int vectors, T const* row_sum, T* factor) {
  return detail::finish<pack<T>>(out, head_dim, vectors, row_sum, factor);
}
template <class T>
HEED_DOOR_V1 void pack_query(void const* from, element_kind kind, index_t row_stride, index_t column_stride,
                             index_t rows, index_t columns, T scale, index_t lanes, T* to) {
  detail::pack_query<T>(from, kind, row_stride, column_stride, rows, columns, scale, lanes, to);
}
template <class T>
HEED_DOOR_V1 void pack_rows(void const* from, element_kind kind, index_t row_stride, index_t column_stride,
                            index_t rows, index_t columns, T* to) {
  detail::pack_rows<T>(from, kind, row_stride, column_stride, rows, columns, to);
}
template <class T>
HEED_DOOR_V1 void unpack(T const* from, T const* factor, index_t lanes, index_t rows, index_t columns, void* to,
                         element_kind kind, index_t row_stride, index_t column_stride) {
  detail::unpack<T>(from, factor, lanes, rows, columns, to, kind, row_stride, column_stride);
}
template <class T, class Rule>
HEED_DOOR_V1 void apply_rule(void const* rule, T* scores, int vectors, block const& area, T const* row_max,
                             T* block_max) {
  detail::apply_rule<pack<T>>(*static_cast<Rule const*>(rule), scores, vectors, area, row_max, block_max);
}

template <class T>
inline constexpr verbs<T> table{pack<T>::lanes,
                                {scores<T, 1>, scores<T, 2>, scores<T, 3>},
                                {softmax<T, 1>, softmax<T, 2>, softmax<T, 3>},
                                {accumulate<T, 1>, accumulate<T, 2>, accumulate<T, 3>},
                                accumulate_visible<T>,
                                probabilities<T>,
                                finish<T>,
                                pack_query<T>,
                                pack_rows<T>,
                                unpack<T>};

}  // namespace v1
}  // namespace HEED_ABI
}  // namespace heed::detail
