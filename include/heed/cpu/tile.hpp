// Query tiles and their walk over the blocks of keys: what is skipped, what is packed, what a verb is given.
#pragma once

#include "heed/cpu/table.hpp"
#include "heed/cpu/tuning.hpp"
#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// One call on one instruction set.
template <class Real>
struct kernel {
  problem const& call;
  verbs<Real> const& verb;
  rule_view rule;
  rule_verb<Real> apply_rule;
  Real scale;
  index_t block_keys;
};

/// Up to three vectors of query rows of one head, and what is known of them after the keys seen so far.
template <class Real>
struct query_tile {
  index_t head;
  index_t query_begin;
  index_t rows;
  int vectors;
  key_range keys;  // outside of these nothing is visible
  Real* query;     // [head_dim_qk, lanes], scaled
  Real* out;       // [head_dim_v, lanes], not yet divided by row_sum
  Real* row_max;   // [lanes]
  Real* row_sum;   // [lanes]
  Real* factor;    // [lanes], 1 / row_sum once all keys are seen
};

/// What the tiles of one piece of work share.
template <class Real>
struct workspace {
  Real* scores;     // [block_keys, lanes]
  Real* spare;      // as large as the largest tile: rows on their way in or out, scores before softmax
  Real* block_max;  // [lanes]
  Real* rescale;    // [lanes]
  Real* ones;       // [lanes]
  Real* key;        // [block_keys, head_dim_qk], if K is packed
  Real* value;      // [block_keys, head_dim_v], if V is packed
};

/// Vectors of the next tile where `rows` are left: three, but two and two for the rest of four, so that no lane is
/// idle.
[[nodiscard]] constexpr int vectors_for(index_t rows, int lanes) noexcept {
  const index_t needed = ceil_div(rows, lanes);
  return needed == 4 ? 2 : static_cast<int>(lesser(needed, 3));
}

/// Whether the elements of a row are Real and follow one another: then the verbs use them where they lie.
template <class Real>
[[nodiscard]] bool has_plain_rows(operand const& box) noexcept {
  return box.kind == (sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64) &&
         (box.extents[3] <= 1 || box.strides[3] == 1);
}

/// K or V are packed where their rows are not plain, and where rows lie far apart once enough queries use them.
template <class Real>
[[nodiscard]] bool packs(operand const& box, index_t rows_served) noexcept {
  return !has_plain_rows<Real>(box) ||
         (box.extents[2] > 1 && box.strides[2] != box.extents[3] && rows_served >= rows_that_repay_packing);
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

/// Rows of K or V from one key on.
template <class Real>
struct key_rows {
  Real const* first;
  index_t stride;

  [[nodiscard]] Real const* at(index_t row) const noexcept { return first + row * stride; }
};

template <class Real>
[[nodiscard]] key_rows<Real> rows_of(kernel<Real> const& run, operand const& box, Real* packed, index_t batch,
                                     index_t head, index_t begin, index_t end) noexcept {
  if (packed == nullptr) {
    return {static_cast<Real const*>(box.row(batch, head, begin)), box.strides[2]};
  }
  run.verb.pack_rows(box.row(batch, head, begin), box.kind, box.strides[2], box.strides[3], end - begin, box.extents[3],
                     packed);
  return {packed, box.extents[3]};
}

/// Calls `visit(tile, area, cover, key rows, value rows)` for each block that a tile may see, keys outer, tiles inner,
/// so that all tiles use a block of K and V while it is near. Blocks that a rule hides are never read.
template <class Real, class Visit>
void walk_keys(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
               index_t kv_head, query_tile<Real> const* tiles, int tile_count, Visit const& visit) {
  key_range all{seq.key_end, seq.key_begin};
  for (int t = 0; t < tile_count; ++t) {
    if (tiles[t].keys.begin >= tiles[t].keys.end) continue;
    all = {lesser(all.begin, tiles[t].keys.begin), greater(all.end, tiles[t].keys.end)};
  }
  for (index_t begin = all.begin / run.block_keys * run.block_keys; begin < all.end; begin += run.block_keys) {
    const index_t end = lesser(begin + run.block_keys, all.end);
    const index_t first = greater(begin, all.begin);
    bool loaded = false;
    key_rows<Real> key{}, value{};
    for (int t = 0; t < tile_count; ++t) {
      const block area = visible_block(tiles[t], seq, batch, first, end);
      if (area.key_begin >= area.key_end) continue;
      const cover seen = run.rule.covers(run.rule.rule, area);
      if (seen == cover::none) continue;
      if (!loaded) {
        key = rows_of(run, run.call.key, work.key, batch, kv_head, first, end);
        value = rows_of(run, run.call.value, work.value, batch, kv_head, first, end);
        loaded = true;
      }
      visit(tiles[t], area, seen, key_rows<Real>{key.at(area.key_begin - first), key.stride},
            key_rows<Real>{value.at(area.key_begin - first), value.stride});
    }
  }
}

/// Scores of one block, under the rule where it hides a part.
template <class Real>
void score_block(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile, block const& area,
                 cover seen, key_rows<Real> key) {
  run.verb.scores[tile.vectors - 1](tile.query, key.first, key.stride, area.key_end - area.key_begin,
                                    run.call.head_dim_qk, work.scores, tile.row_max, work.block_max);
  if (seen == cover::partial) {
    run.apply_rule(run.rule.rule, work.scores, tile.vectors, area, tile.row_max, work.block_max);
  }
}

/// Skip, score, apply the rule, softmax, accumulate: one pass over the keys for all tiles of a piece of work.
template <class Real>
void attend_tiles(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                  index_t kv_head, query_tile<Real> const* tiles, int tile_count) {
  walk_keys(run, work, seq, batch, kv_head, tiles, tile_count,
            [&](query_tile<Real> const& tile, block const& area, cover seen, key_rows<Real> key, key_rows<Real> value) {
              const index_t keys = area.key_end - area.key_begin;
              score_block(run, work, tile, area, seen, key);
              run.verb.softmax[tile.vectors - 1](work.scores, keys, work.block_max, tile.row_max, tile.row_sum,
                                                 work.rescale);
              run.verb.accumulate[tile.vectors - 1](work.scores, value.first, value.stride, keys, run.call.head_dim_v,
                                                    tile.out, work.rescale);
            });
}

template <class Real>
void keep_scores(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                 block const& area) noexcept {
  const index_t count = (area.key_end - area.key_begin) * tile.vectors * run.verb.lanes;
  for (index_t i = 0; i < count; ++i) work.spare[i] = work.scores[i];
}

/// The same for one tile from the start, never touching a value that a row may not see.
template <class Real>
void attend_visible(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                    index_t kv_head, query_tile<Real> const& only) {
  walk_keys(run, work, seq, batch, kv_head, &only, 1,
            [&](query_tile<Real> const& tile, block const& area, cover seen, key_rows<Real> key, key_rows<Real> value) {
              const index_t keys = area.key_end - area.key_begin;
              score_block(run, work, tile, area, seen, key);
              keep_scores(run, work, tile, area);
              run.verb.softmax[tile.vectors - 1](work.scores, keys, work.block_max, tile.row_max, tile.row_sum,
                                                 work.rescale);
              run.verb.accumulate_visible(work.scores, work.spare, value.first, value.stride, keys, run.call.head_dim_v,
                                          tile.vectors, tile.out, work.rescale);
            });
}

/// The probabilities of one tile, block by block, once row_max and factor are final:
/// `visit(area, probabilities, value rows)`. `spare` then holds the scores they were made of.
template <class Real, class Visit>
void revisit_probabilities(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                           index_t kv_head, query_tile<Real> const& only, Visit const& visit) {
  walk_keys(run, work, seq, batch, kv_head, &only, 1,
            [&](query_tile<Real> const& tile, block const& area, cover seen, key_rows<Real> key, key_rows<Real> value) {
              score_block(run, work, tile, area, seen, key);
              keep_scores(run, work, tile, area);
              run.verb.probabilities(work.scores, area.key_end - area.key_begin, tile.vectors, tile.row_max,
                                     tile.factor);
              visit(area, work.scores, value);
            });
}

/// out = sum of final probabilities times values: it stays within the values, as the sum before its division may not.
template <class Real>
void attend_again(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                  index_t kv_head, query_tile<Real> const& tile) {
  revisit_probabilities(
      run, work, seq, batch, kv_head, tile, [&](block const& area, Real const* probabilities, key_rows<Real> value) {
        run.verb.accumulate_visible(probabilities, work.spare, value.first, value.stride, area.key_end - area.key_begin,
                                    run.call.head_dim_v, tile.vectors, tile.out, work.ones);
      });
}

}  // namespace HEED_ABI
}  // namespace heed::detail
