// The doors of AVX2 with FMA and F16C: 32-byte vectors, 16 registers.
#pragma once

#include "heed/cpu/verb/accumulate.hpp"
#include "heed/cpu/verb/add_rows.hpp"
#include "heed/cpu/verb/cap.hpp"
#include "heed/cpu/verb/differentiate.hpp"
#include "heed/cpu/verb/dot_rows.hpp"
#include "heed/cpu/verb/drop.hpp"
#include "heed/cpu/verb/key_gradients.hpp"
#include "heed/cpu/verb/pack.hpp"
#include "heed/cpu/verb/rule.hpp"
#include "heed/cpu/verb/rule_gradient.hpp"
#include "heed/cpu/verb/scores.hpp"
#include "heed/cpu/verb/softmax.hpp"
#include "heed/cpu/verb/softmax_rows.hpp"
#include "heed/cpu/verbs.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
namespace v3 {

template <class Real>
using pack = simd<Real, 32 / static_cast<int>(sizeof(Real))>;
// Keys or value dimensions in one register tile: more beside a single vector, which would wait for its multiply-adds.
template <int Vectors>
inline constexpr int tile_rows = Vectors == 1 ? 8 : 4;
inline constexpr int rest_rows = 4;
inline constexpr int row_tile = 2;  // vectors beside each other in a tile of four rows
// Keys, and vectors of columns, in one register tile of their gradients.
inline constexpr int gradient_keys = 6;
inline constexpr int gradient_vectors = 2;

template <class Real, int Vectors>
HEED_DOOR_V3 void scores(Real const* query, Real const* key, index_t key_stride, index_t keys, index_t head_dim,
                         index_t lanes, Real* to, Real const* row_max, Real* block_max, line_stream const& ahead) {
  detail::scores<pack<Real>, tile_rows<Vectors>, rest_rows, Vectors>(query, key, key_stride, keys, head_dim, lanes, to,
                                                                     row_max, block_max, ahead);
}
template <class Real, int Vectors>
HEED_DOOR_V3 void softmax(Real* scores, index_t keys, Real to_exponent, Real const* block_max, Real* row_max,
                          Real* row_sum, Real* exact_sum, Real* rescale) {
  detail::softmax<pack<Real>, Vectors>(scores, keys, to_exponent, block_max, row_max, row_sum, exact_sum, rescale);
}
template <class Real, int Vectors>
HEED_DOOR_V3 void accumulate(Real const* probabilities, Real const* value, index_t value_stride, index_t keys,
                             index_t head_dim, index_t lanes, Real const* start, Real* out, Real const* rescale,
                             line_stream const& ahead) {
  detail::accumulate<pack<Real>, tile_rows<Vectors>, Vectors>(probabilities, value, value_stride, keys, head_dim, lanes,
                                                              start, out, rescale, ahead);
}
template <class Real>
HEED_DOOR_V3 void accumulate_visible(Real const* probabilities, Real const* scores, Real const* value,
                                     index_t value_stride, index_t keys, index_t head_dim, int vectors, Real* out,
                                     Real const* rescale) {
  detail::accumulate_visible<pack<Real>>(probabilities, scores, value, value_stride, keys, head_dim, vectors, out,
                                         rescale);
}
template <class Real>
HEED_DOOR_V3 void probabilities(Real* scores, index_t keys, int vectors, Real to_exponent, Real const* row_max,
                                Real const* factor) {
  detail::probabilities<pack<Real>>(scores, keys, vectors, to_exponent, row_max, factor);
}
template <class Real>
HEED_DOOR_V3 void weigh_rows(Real* scores, index_t row_stride, index_t rows, index_t keys, Real to_exponent,
                             Real const* row_max, Real const* factor) {
  detail::weigh_rows<pack<Real>>(scores, row_stride, rows, keys, to_exponent, row_max, factor);
}
template <class Real>
HEED_DOOR_V3 bool finish(Real const* out, index_t head_dim, int vectors, Real const* row_sum, Real* factor) {
  return detail::finish<pack<Real>>(out, head_dim, vectors, row_sum, factor);
}
template <class Real>
HEED_DOOR_V3 void pack_query(Real const* from, index_t row_stride, index_t rows, index_t columns, Real scale,
                             int vectors, Real* to) {
  detail::pack_query<pack<Real>>(from, row_stride, rows, columns, scale, vectors, to);
}
template <class Real>
HEED_DOOR_V3 void unpack_tile(Real const* from, Real const* factor, int vectors, index_t rows, index_t columns,
                              Real* to, index_t row_stride) {
  detail::unpack_tile<pack<Real>>(from, factor, vectors, rows, columns, to, row_stride);
}
template <class Real>
HEED_DOOR_V3 void pack_rows(void const* from, element_kind kind, index_t row_stride, index_t column_stride,
                            index_t rows, index_t columns, Real* to) {
  detail::pack_rows<pack<Real>>(from, kind, row_stride, column_stride, rows, columns, to);
}
template <class Real>
HEED_DOOR_V3 void pack_terms(void const* from, element_kind kind, index_t row_stride, index_t column_stride,
                             index_t rows, index_t columns, Real* to) {
  if constexpr (sizeof(Real) == 4) {
    if (kind == element_kind::float64) {
      return narrow_terms<pack<Real>>(static_cast<double const*>(from), row_stride, column_stride, rows, columns, to);
    }
  }
  pack_rows<Real>(from, kind, row_stride, column_stride, rows, columns, to);
}
template <class Real>
HEED_DOOR_V3 void unpack_rows(Real const* from, index_t rows, index_t columns, void* to, element_kind kind,
                              index_t row_stride, index_t column_stride) {
  detail::unpack_rows<pack<Real>>(from, rows, columns, to, kind, row_stride, column_stride);
}
template <class Real>
HEED_DOOR_V3 void cap_scores(Real* scores, index_t keys, index_t lanes, int vectors, Real unit, Real cap,
                             Real const* row_max, Real* block_max) {
  detail::cap_scores<pack<Real>>(scores, keys, lanes, vectors, unit, cap, row_max, block_max);
}
template <class Real>
HEED_DOOR_V3 void drop(Real* probabilities, index_t lanes, int vectors, block const& area, dropout const& given) {
  detail::drop<pack<Real>>(probabilities, lanes, vectors, area, given);
}
template <class Real, class Rule>
HEED_DOOR_V3 void apply_rule(void const* rule, Real* scores, index_t lanes, int vectors, block const& area, cover seen,
                             block_terms<Real> const& terms, Real const* row_max, Real* block_max) {
  detail::apply_rule<pack<Real>>(*static_cast<Rule const*>(rule), scores, lanes, vectors, area, seen, terms, row_max,
                                 block_max);
}
template <class Real, class Rule>
HEED_DOOR_V3 void rule_gradient(void const* rule, Real const* scores, Real* gradient, index_t lanes, int vectors,
                                block const& area, block_terms<Real> const& terms, Real* const* stage_gradients) {
  detail::rule_gradient<pack<Real>>(*static_cast<Rule const*>(rule), scores, gradient, lanes, vectors, area, terms,
                                    stage_gradients);
}

template <class Real>
inline constexpr verbs<Real> table{pack<Real>::lanes,
                                   1,
                                   1,
                                   1,
                                   {tile_rows<1>, tile_rows<2>, tile_rows<3>},
                                   {rest_rows, rest_rows, rest_rows},
                                   {scores<Real, 1>, scores<Real, 2>, scores<Real, 3>},
                                   {softmax<Real, 1>, softmax<Real, 2>, softmax<Real, 3>},
                                   {accumulate<Real, 1>, accumulate<Real, 2>, accumulate<Real, 3>},
                                   accumulate_visible<Real>,
                                   probabilities<Real>,
                                   weigh_rows<Real>,
                                   cap_scores<Real>,
                                   drop<Real>,
                                   nullptr,
                                   finish<Real>,
                                   pack_query<Real>,
                                   unpack_tile<Real>,
                                   unpack_tile<Real>,
                                   pack_rows<Real>,
                                   nullptr,
                                   unpack_rows<Real>};

template <class Real, element_kind Own>
HEED_DOOR_V3 void dot_rows(Real const* query, index_t query_stride, index_t rows, void const* key, element_kind kind,
                           index_t key_stride, index_t keys, index_t keys_left, index_t head_dim, Real* to,
                           index_t score_stride, Real* sums) {
  detail::dot_rows<pack<Real>, row_tile, Own>(query, query_stride, rows, key, kind, key_stride, keys, keys_left,
                                              head_dim, to, score_stride, sums);
}
template <class Real>
HEED_DOOR_V3 void softmax_rows(Real* scores, index_t score_stride, index_t rows, index_t keys, Real* row_max,
                               Real* row_sum, Real* out, index_t out_stride) {
  detail::softmax_rows<pack<Real>>(scores, score_stride, rows, keys, row_max, row_sum, out, out_stride);
}
template <class Real, element_kind Own>
HEED_DOOR_V3 void add_rows(Real const* probabilities, index_t probability_stride, index_t rows, void const* value,
                           element_kind kind, index_t value_stride, index_t lead, index_t keys, index_t keys_left,
                           index_t head_dim, Real* out, index_t out_stride) {
  detail::add_rows<pack<Real>, row_tile, Own>(probabilities, probability_stride, rows, value, kind, value_stride, lead,
                                              keys, keys_left, head_dim, out, out_stride);
}
template <class Real>
HEED_DOOR_V3 bool scale_row(Real const* from, index_t columns, Real factor, Real* to) {
  return detail::scale_row<pack<Real>>(from, columns, factor, to);
}
template <class Real>
HEED_DOOR_V3 void merge_rows(index_t rows, Real* row_max, Real* row_sum, Real* out, Real const* next_max,
                             Real const* next_sum, Real const* next_out, index_t out_stride) {
  detail::merge_rows<pack<Real>>(rows, row_max, row_sum, out, next_max, next_sum, next_out, out_stride);
}

/// For operands K and V of these kinds.
template <class Real, element_kind Key, element_kind Value>
inline constexpr row_verbs<Real> row_table{pack<Real>::lanes,     reads_in_place<pack<Real>>(element_kind::bfloat16),
                                           dot_rows<Real, Key>,   softmax_rows<Real>,
                                           add_rows<Real, Value>, merge_rows<Real>,
                                           scale_row<Real>};

template <class Real>
HEED_DOOR_V3 void key_gradients(Real const* tile, index_t lanes, index_t keys, Real const* from, index_t rows,
                                index_t stride, Real* to) {
  detail::key_gradients<pack<Real>, gradient_keys, gradient_vectors>(tile, lanes, keys, from, rows, stride, to);
}
template <class Real>
HEED_DOOR_V3 void key_gradients_visible(Real const* tile, index_t tile_stride, Real const* scores, index_t lanes,
                                        index_t keys, Real const* from, index_t rows, index_t stride, Real* to) {
  detail::key_gradients_visible<pack<Real>>(tile, tile_stride, scores, lanes, keys, from, rows, stride, to);
}
template <class Real>
HEED_DOOR_V3 void differentiate(Real* scores, Real* gradient, Real const* keep, index_t lanes, int vectors,
                                index_t keys, Real unit, Real const* lse, Real const* delta) {
  detail::differentiate<pack<Real>>(scores, gradient, keep, lanes, vectors, keys, unit, lse, delta);
}
template <class Real>
HEED_DOOR_V3 void cap_gradient(Real const* capped, Real* gradient, index_t keys, index_t lanes, int vectors, Real cap) {
  detail::cap_gradient<pack<Real>>(capped, gradient, keys, lanes, vectors, cap);
}
template <class Real>
HEED_DOOR_V3 void row_dots(Real const* one, Real const* other, index_t rows, index_t stride, Real* out) {
  detail::row_dots<pack<Real>>(one, other, rows, stride, out);
}
template <class Real>
HEED_DOOR_V3 bool all_finite(Real const* from, index_t rows, index_t row_stride, index_t columns) {
  return detail::all_finite<pack<Real>>(from, rows, row_stride, columns);
}

template <class Real>
inline constexpr gradient_verbs<Real> gradient_table{key_gradients<Real>,
                                                     key_gradients_visible<Real>,
                                                     nullptr,
                                                     differentiate<Real>,
                                                     cap_gradient<Real>,
                                                     row_dots<Real>,
                                                     all_finite<Real>,
                                                     pack_rows<Real>,
                                                     nullptr,
                                                     scale_row<Real>};

}  // namespace v3
}  // namespace HEED_ABI
}  // namespace heed::detail
