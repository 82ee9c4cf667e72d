// The doors of AVX-512 for no more than eight query rows of float. Tiles of head_dim hold two columns of a row side by
// side; what has one number for each row is that of eight lanes, AVX2's.
#pragma once

#include "heed/cpu/doors/v3.hpp"
#include "heed/cpu/doors/v4.hpp"
#include "heed/cpu/simd/column_pairs.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
namespace v4_columns {

// Keys, or pairs of value dimensions, in one register tile: enough that no multiply-add waits for another. Sixteen are
// slower: there is more code, and fewer turns in which to ask for memory.
inline constexpr int tile_rows = 8;

template <class Real>
HEED_DOOR_V4 void scores(Real const* query, Real const* key, index_t key_stride, index_t keys, index_t head_dim,
                         index_t lanes, Real* to, Real const* row_max, Real* block_max, line_stream const& ahead) {
  detail::scores<column_pairs, tile_rows, tile_rows, 1>(query, key, key_stride, keys, head_dim, lanes, to, row_max,
                                                        block_max, ahead);
}
template <class Real>
HEED_DOOR_V4 void accumulate(Real const* probabilities, Real const* value, index_t value_stride, index_t keys,
                             index_t head_dim, index_t lanes, Real const* start, Real* out, Real const* rescale,
                             line_stream const& ahead) {
  detail::accumulate<column_pairs, tile_rows, 1>(probabilities, value, value_stride, keys, head_dim, lanes, start, out,
                                                 rescale, ahead);
}
template <class Real>
HEED_DOOR_V4 void accumulate_visible(Real const* probabilities, Real const* scores, Real const* value,
                                     index_t value_stride, index_t keys, index_t head_dim, int vectors, Real* out,
                                     Real const* rescale) {
  detail::accumulate_visible<column_pairs>(probabilities, scores, value, value_stride, keys, head_dim, vectors, out,
                                           rescale);
}
template <class Real>
HEED_DOOR_V4 void pack_query(Real const* from, index_t row_stride, index_t rows, index_t columns, Real scale,
                             int vectors, Real* to) {
  detail::pack_query<column_pairs>(from, row_stride, rows, columns, scale, vectors, to);
}
template <class Real>
HEED_DOOR_V4 void unpack_out(Real const* from, Real const* factor, int vectors, index_t rows, index_t columns, Real* to,
                             index_t row_stride) {
  detail::unpack_tile<column_pairs>(from, factor, vectors, rows, columns, to, row_stride);
}

/// Real is float; tiles have one vector.
template <class Real>
inline constexpr verbs<Real> table{column_pairs::lanes,
                                   1,
                                   1,
                                   column_pairs::columns_per_lane,
                                   {tile_rows},
                                   {tile_rows},
                                   {scores<Real>},
                                   {v3::softmax<Real, 1>},
                                   {accumulate<Real>},
                                   accumulate_visible<Real>,
                                   v3::probabilities<Real>,
                                   v3::weigh_rows<Real>,
                                   v3::cap_scores<Real>,
                                   v3::drop<Real>,
                                   nullptr,
                                   v3::finish<Real>,
                                   pack_query<Real>,
                                   v3::unpack_tile<Real>,
                                   unpack_out<Real>,
                                   v4::pack_rows<Real>,
                                   nullptr,
                                   v4::unpack_rows<Real>};

}  // namespace v4_columns
}  // namespace HEED_ABI
}  // namespace heed::detail
