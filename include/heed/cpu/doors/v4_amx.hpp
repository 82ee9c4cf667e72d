// The doors of AVX-512 with AMX: pairs of bfloat16, multiplied on tiles. What multiplies nothing is that of v4_bf16.
#pragma once

#include "heed/cpu/doors/v4_bf16.hpp"
#include "heed/cpu/verb/tile_accumulate.hpp"
#include "heed/cpu/verb/tile_key_gradients.hpp"
#include "heed/cpu/verb/tile_scores.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
namespace v4_amx {

template <class Real, int Vectors>
HEED_DOOR_V4_BF16 void scores(Real const* query, Real const* key, index_t key_stride, index_t keys, index_t words,
                              index_t lanes, Real* to, Real const* row_max, Real* block_max, line_stream const& ahead) {
  tile_scores<Vectors>(query, key, key_stride, keys, words, lanes, to, row_max, block_max, ahead);
}
template <class Real, int Vectors>
HEED_DOOR_V4_BF16 void softmax(Real* scores, index_t keys, Real to_exponent, Real const* block_max, Real* row_max,
                               Real* row_sum, Real* exact_sum, Real* rescale) {
  detail::softmax<bf16_tiles, Vectors>(scores, keys, to_exponent, block_max, row_max, row_sum, exact_sum, rescale);
}
template <class Real, int Vectors>
HEED_DOOR_V4_BF16 void accumulate(Real const* probabilities, Real const* value, index_t value_stride, index_t rows,
                                  index_t head_dim, index_t lanes, Real const* start, Real* out, Real const* rescale,
                                  line_stream const& ahead) {
  tile_accumulate<Vectors>(probabilities, value, value_stride, rows, head_dim, lanes, start, out, rescale, ahead);
}
template <class Real>
HEED_DOOR_V4_BF16 void accumulate_visible(Real const* probabilities, Real const* scores, Real const* value,
                                          index_t value_stride, index_t words, index_t head_dim, int vectors, Real* out,
                                          Real const* rescale) {
  detail::accumulate_visible<bf16_tiles>(probabilities, scores, value, value_stride, words, head_dim, vectors, out,
                                         rescale);
}
template <class Real>
HEED_DOOR_V4_BF16 void round_pairs(Real* probabilities, index_t keys, int vectors) {
  detail::round_pairs<bf16_tiles>(probabilities, keys, vectors);
}
template <class Real>
HEED_DOOR_V4_BF16 void pack_rows(void const* from, element_kind, index_t row_stride, index_t column_stride,
                                 index_t rows, index_t columns, Real* to) {
  pack_row_pairs<bf16_tiles>(static_cast<bfloat16 const*>(from), row_stride, column_stride, rows, columns, to);
}
template <class Real>
HEED_DOOR_V4_BF16 void pack_value(void const* from, element_kind, index_t row_stride, index_t column_stride,
                                  index_t lead, index_t rows, index_t columns, Real* to) {
  pack_key_lines<bf16_tiles>(static_cast<bfloat16 const*>(from), row_stride, column_stride, lead, rows, columns, to);
}

/// Real is float: a template, so that a program without bfloat16 does not compile it.
template <class Real>
inline constexpr verbs<Real> table{v4::pack<Real>::lanes,
                                   bf16_tiles::elements_per_word,
                                   bf16_tiles::words_per_line,
                                   bf16_tiles::columns_per_lane,
                                   {8, 8, 8},
                                   {8, 8, 8},
                                   {scores<Real, 1>, scores<Real, 2>, scores<Real, 3>},
                                   {softmax<Real, 1>, softmax<Real, 2>, softmax<Real, 3>},
                                   {accumulate<Real, 1>, accumulate<Real, 2>, accumulate<Real, 3>},
                                   accumulate_visible<Real>,
                                   v4::probabilities<Real>,
                                   v4::weigh_rows<Real>,
                                   v4::cap_scores<Real>,
                                   nullptr,
                                   round_pairs<Real>,
                                   v4::finish<Real>,
                                   v4_bf16::pack_query<Real>,
                                   v4::unpack_tile<Real>,
                                   v4::unpack_tile<Real>,
                                   pack_rows<Real>,
                                   pack_value<Real>,
                                   v4::unpack_rows<Real>};

template <class Real>
HEED_DOOR_V4_BF16 void key_gradients(Real const* tile, index_t tile_stride, index_t keys, Real const* from,
                                     index_t rows, index_t stride, Real* to) {
  tile_key_gradients(tile, tile_stride, keys, from, ceil_div(rows, 2), stride, to);
}
template <class Real>
HEED_DOOR_V4_BF16 void key_gradients_visible(Real const* tile, index_t tile_stride, Real const* scores, index_t lanes,
                                             index_t keys, Real const* from, index_t rows, index_t stride, Real* to) {
  detail::key_gradients_visible<bf16_tiles>(tile, tile_stride, scores, lanes, keys, from, rows, stride, to);
}
template <class Real>
HEED_DOOR_V4_BF16 void round_rows(Real const* tile, index_t lanes, int vectors, index_t rows, index_t keys,
                                  Real* words) {
  detail::round_rows<bf16_tiles>(tile, lanes, vectors, rows, keys, words);
}

template <class Real>
inline constexpr gradient_verbs<Real> gradient_table{
    key_gradients<Real>,      key_gradients_visible<Real>, round_rows<Real>,          v4::differentiate<Real>,
    v4::cap_gradient<Real>,   v4::row_dots<Real>,          v4_bf16::all_finite<Real>, v4::pack_rows<Real>,
    v4_bf16::pair_rows<Real>, v4::scale_row<Real>};

}  // namespace v4_amx
}  // namespace HEED_ABI
}  // namespace heed::detail
