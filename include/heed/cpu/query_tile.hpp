// Query tiles: what the loops over keys know of some query rows, and what they work in.
#pragma once

#include "heed/cpu/packing.hpp"
#include "heed/cpu/tuning.hpp"
#include "heed/cpu/verbs.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// As many lanes as a tile may have, each 1.
template <class Real>
struct lanes_of_one {
  alignas(64) Real lanes[3 * 64 / sizeof(Real)] = {};
  constexpr lanes_of_one() noexcept {
    for (Real& lane : lanes) lane = Real(1);
  }
};
template <class Real>
inline constexpr lanes_of_one<Real> ones{};

/// Up to three vectors of query rows of one head, and what is known of them after the keys seen so far.
template <class Real>
struct query_tile {
  index_t head;
  index_t query_begin;
  index_t rows;
  int vectors;
  bool is_fresh;    // no key has been seen, and `out` holds nothing yet
  key_range keys;   // outside of these nothing is visible
  Real* query;      // [words of head_dim_qk, lanes], or column pairs; scaled unless the words are pairs
  Real* out;        // [head_dim_v, lanes], or column pairs; not yet divided by row_sum
  Real* row_max;    // [lanes]
  Real* row_sum;    // [lanes]
  Real* exact_sum;  // [lanes], for lse and weights: row_sum, but where words round; null then if neither is wanted
  Real* factor;     // [lanes], what makes `out` a mean once all keys are seen
};

/// What the tiles of one piece of work share.
template <class Real>
struct workspace {
  Real* scores;                 // [block_keys, lanes]
  Real* spare;                  // as large as the largest tile: rows on their way in or out, scores before softmax
  Real* block_max;              // [lanes]
  Real* hidden_max;             // [lanes], of scores that a rule has yet to look at: not used
  Real* rescale;                // [lanes]
  Real* before_rule = nullptr;  // null, or room for the scores that the rule is given, once more
  term_rows<Real>* terms;       // [dense stages], of the block at hand
  Real* packed_terms;           // [dense stages, term_step]
  index_t term_step;
  index_t row_begin, row_end;  // of the piece of work
  Real* key = nullptr;         // [block_keys, words of head_dim_qk], if the piece packs K
  Real* value = nullptr;       // [lines of block_keys, head_dim_v, words_per_line], if packed by the piece
  read_ahead* ahead;
};

/// Vectors of the next tile where `rows` are left: three, but two and two for the rest of four, so that no lane is
/// idle.
[[nodiscard]] inline int vectors_for(index_t rows, int lanes) noexcept {
  const index_t needed = ceil_div_pow2(rows, lanes);
  return needed == 4 ? 2 : static_cast<int>(lesser(needed, 3));
}

/// Where the rows from `begin` on that tiles do not cross end: at a border of the rule behind rows enough, so that
/// little is lost by a tile that is not full.
[[nodiscard]] inline index_t segment_end(rule_view const& rule, block const& rows, index_t begin, int lanes) {
  if (!rule.has_borders()) return rows.query_end;
  block area = rows;
  area.query_begin = begin;
  while (area.query_begin < area.query_end) {
    const index_t border = rule.next_border(area);
    if (border - area.query_begin >= vectors_per_segment * lanes) return border;
    area.query_begin = border;
  }
  return area.query_end;
}

/// Calls `visit(area, vectors)` with the tiles of the rows of a block, in their order.
template <class Visit>
void cut_tiles(rule_view const& rule, block const& rows, int lanes, Visit const& visit) {
  block tile = rows;
  while (tile.query_begin < rows.query_end) {
    const index_t end = segment_end(rule, rows, tile.query_begin, lanes);
    while (tile.query_begin < end) {
      const int vectors = vectors_for(end - tile.query_begin, lanes);
      tile.query_end = lesser(end, tile.query_begin + vectors * lanes);
      visit(tile, vectors);
      tile.query_begin = tile.query_end;
    }
  }
}

/// Vectors of the tiles that so many vectors of query rows become, and so tiles, at most: a segment loses less than one
/// to lanes that are idle.
[[nodiscard]] constexpr index_t most_vectors(index_t vectors) noexcept {
  return vectors + ceil_div(vectors, vectors_per_segment);
}

/// The part of a tile's block of scores in keys [begin, end) that may be visible.
template <class Real>
[[nodiscard]] block visible_block(query_tile<Real> const& tile, sequence const& seq, index_t batch, index_t begin,
                                  index_t end) noexcept {
  return {batch,
          tile.head,
          tile.query_begin,
          tile.query_begin + tile.rows,
          greater(begin, tile.keys.begin),
          lesser(end, tile.keys.end),
          seq.offset};
}

}  // namespace HEED_ABI
}  // namespace heed::detail
