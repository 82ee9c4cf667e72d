// The table of doors of one instruction set: everything above it is plain code that passes pointers and numbers.
#pragma once

#include "heed/base/element.hpp"
#include "heed/base/power_of_2.hpp"
#include "heed/cpu/read_ahead.hpp"
#include "heed/mask/mask.hpp"
#include "heed/view/dropout.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Terms of one dense stage: rows of numbers, one for each key.
template <class Real>
struct term_rows {
  Real const* first;
  index_t stride;
};

/// The terms of a rule's dense stages for a block whose first score is at (row, key) of each.
template <class Real>
struct block_terms {
  term_rows<Real> const* stages;
  index_t row, key;
};

/// From tiles to rows.
template <class Real>
using unpack_verb = void (*)(Real const* from, Real const* factor, int vectors, index_t rows, index_t columns, Real* to,
                             index_t row_stride);

/// The block verbs for one accumulate type. A tile is 1, 2 or 3 vectors of query rows, of column pairs only 1; index
/// `vectors - 1`. Scores and accumulate may work on some vectors of a tile of `lanes` lanes. Tiles are [.., lanes],
/// those of Q and out perhaps [.. / 2, lanes, 2], aligned to whole vectors. Operands of products are words: a Real, or
/// a pair of bfloat16. The files in cpu/verb say what each verb does.
template <class Real>
struct verbs {
  int lanes;              ///< query rows in one vector
  int elements_per_word;  ///< 1; 2 where words are pairs of bfloat16
  int words_per_line;     ///< that are multiplied in one step: 1; 16 on tiles. Rows of Q and K are whole lines
  int columns_per_lane;   ///< of head_dim, side by side in tiles of Q and out [head_dim / 2, lanes, 2]: 1, or 2
  int tile_rows[3];       ///< keys, or lanes of value dimensions, in one register tile of scores and accumulate
  int rest_rows[3];       ///< in one of what is left over by such tiles

  /// Neighbouring keys that lie together in a row of V: [head_dim_v, words_per_line].
  [[nodiscard]] constexpr int keys_per_line() const noexcept { return elements_per_word * words_per_line; }
  /// Steps that a verb of products takes through so many columns of head_dim.
  [[nodiscard]] constexpr index_t steps(index_t columns) const noexcept { return div_pow2(columns, columns_per_lane); }
  /// Query rows of the largest tile.
  [[nodiscard]] constexpr int most_rows() const noexcept { return columns_per_lane > 1 ? lanes : 3 * lanes; }
  /// The query row of one place in a tile of Q or out.
  [[nodiscard]] constexpr index_t row_of(index_t place, index_t tile_lanes) const noexcept {
    return div_pow2(place, columns_per_lane) % tile_lanes;
  }
  /// Register tiles of so many keys or steps through value dimensions, of `vectors` vectors.
  [[nodiscard]] constexpr index_t register_tiles(index_t rows, int vectors) const noexcept {
    const quotient tiles = divide(rows, tile_rows[vectors - 1]);
    return tiles.whole + ceil_div(tiles.rest, rest_rows[vectors - 1]);
  }

  void (*scores[3])(Real const* query, Real const* key, index_t key_stride, index_t keys, index_t head_dim,
                    index_t lanes, Real* scores, Real const* row_max, Real* block_max, line_stream const& ahead);
  void (*softmax[3])(Real* scores, index_t keys, Real to_exponent, Real const* block_max, Real* row_max, Real* row_sum,
                     Real* exact_sum, Real* rescale);
  void (*accumulate[3])(Real const* probabilities, Real const* value, index_t value_stride, index_t rows,
                        index_t head_dim, index_t lanes, Real const* start, Real* out, Real const* rescale,
                        line_stream const& ahead);
  void (*accumulate_visible)(Real const* probabilities, Real const* scores, Real const* value, index_t value_stride,
                             index_t words, index_t head_dim, int vectors, Real* out, Real const* rescale);
  void (*probabilities)(Real* scores, index_t keys, int vectors, Real to_exponent, Real const* row_max,
                        Real const* factor);
  void (*weigh_rows)(Real* scores, index_t row_stride, index_t rows, index_t keys, Real to_exponent,
                     Real const* row_max, Real const* factor);
  void (*cap_scores)(Real* scores, index_t keys, index_t lanes, int vectors, Real unit, Real cap, Real const* row_max,
                     Real* block_max);
  void (*drop)(Real* probabilities, index_t lanes, int vectors, block const& area,
               dropout const& given);                                   ///< null where words are pairs
  void (*round_pairs)(Real* probabilities, index_t keys, int vectors);  ///< null where words are Real
  bool (*finish)(Real const* out, index_t head_dim, int vectors, Real const* row_sum, Real* factor);
  void (*pack_query)(Real const* from, index_t row_stride, index_t rows, index_t columns, Real scale, int vectors,
                     Real* to);
  unpack_verb<Real> unpack_tile;  ///< of scores
  unpack_verb<Real> unpack_out;
  void (*pack_rows)(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                    index_t columns, Real* to);  ///< of query and key
  void (*pack_value)(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t lead,
                     index_t rows, index_t columns, Real* to);  ///< null where it would be pack_rows
  void (*unpack_rows)(Real const* from, index_t rows, index_t columns, void* to, element_kind kind, index_t row_stride,
                      index_t column_stride);
};

/// The verbs for few query rows, which hold head_dim or the keys in the lanes: for one accumulate type. Rows of tiles
/// are padded to whole vectors, their number to a multiple of four.
template <class Real>
struct row_verbs {
  int lanes;    ///< numbers in one vector
  bool widens;  ///< K and V of half and bfloat16 are read where they lie, not only those of Real
  void (*dot_rows)(Real const* query, index_t query_stride, index_t rows, void const* key, element_kind kind,
                   index_t key_stride, index_t keys, index_t keys_left, index_t head_dim, Real* scores,
                   index_t score_stride, Real* sums);
  void (*softmax_rows)(Real* scores, index_t score_stride, index_t rows, index_t keys, Real* row_max, Real* row_sum,
                       Real* out, index_t out_stride);
  void (*add_rows)(Real const* probabilities, index_t probability_stride, index_t rows, void const* value,
                   element_kind kind, index_t value_stride, index_t lead, index_t keys, index_t keys_left,
                   index_t head_dim, Real* out, index_t out_stride);
  void (*merge_rows)(index_t rows, Real* row_max, Real* row_sum, Real* out, Real const* next_max, Real const* next_sum,
                     Real const* next_out, index_t out_stride);
  bool (*scale_row)(Real const* from, index_t columns, Real factor, Real* to);
};

/// The verbs that only a backward pass needs. Rows of `from` and `to` are padded to whole vectors. Where words are
/// pairs, those of key_gradients are of neighbouring query rows.
template <class Real>
struct gradient_verbs {
  void (*key_gradients)(Real const* tile, index_t tile_stride, index_t keys, Real const* from, index_t rows,
                        index_t stride, Real* to);
  void (*key_gradients_visible)(Real const* tile, index_t tile_stride, Real const* scores, index_t lanes, index_t keys,
                                Real const* from, index_t rows, index_t stride, Real* to);
  void (*round_rows)(Real const* tile, index_t lanes, int vectors, index_t rows, index_t keys,
                     Real* words);  ///< null where words are Real
  void (*differentiate)(Real* scores, Real* gradient, Real const* keep, index_t lanes, int vectors, index_t keys,
                        Real unit, Real const* lse, Real const* delta);
  void (*cap_gradient)(Real const* capped, Real* gradient, index_t keys, index_t lanes, int vectors, Real cap);
  void (*row_dots)(Real const* one, Real const* other, index_t rows, index_t stride, Real* out);
  bool (*all_finite)(Real const* from, index_t rows, index_t row_stride, index_t columns);  ///< of words
  void (*widen_rows)(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                     index_t columns, Real* to);
  void (*pair_rows)(void const* from, index_t row_stride, index_t column_stride, index_t rows, index_t columns,
                    index_t stride, Real* to);  ///< null where words are Real
  bool (*scale_row)(Real const* from, index_t columns, Real factor, Real* to);
};

/// The verbs of one rule, which is the caller's, with its type forgotten.
template <class Real>
struct rule_verbs {
  /// Made anew for each rule.
  void (*apply)(void const* rule, Real* scores, index_t lanes, int vectors, block const& area, cover seen,
                block_terms<Real> const& terms, Real const* row_max, Real* block_max);
  void (*pack_terms)(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                     index_t columns, Real* to);  ///< null where no stage is dense
};

/// The verb that takes gradients back through one rule, made anew for each.
template <class Real>
using rule_gradient_verb = void (*)(void const* rule, Real const* scores, Real* gradient, index_t lanes, int vectors,
                                    block const& area, block_terms<Real> const& terms, Real* const* stage_gradients);

}  // namespace HEED_ABI
}  // namespace heed::detail
