// The weights of a tile, once all keys have passed.
#pragma once

#include "heed/cpu/row_outputs.hpp"
#include "heed/cpu/tile.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Calls `seen(begin, end)` for the ranges of keys whose blocks walk_keys visits for a tile, and `unseen(begin, end)`
/// for those between them.
template <class Real, class Seen, class Unseen>
void for_each_range(kernel<Real> const& run, sequence const& seq, index_t batch, query_tile<Real> const& tile,
                    bool hidden_too, Seen const& visit_seen, Unseen const& visit_unseen) {
  key_range now{0, 0};  // seen
  const auto flush = [&](index_t next) {
    if (now.begin < now.end) visit_seen(now.begin, now.end);
    if (now.end < next) visit_unseen(now.end, next);
  };
  const index_t first = tile.keys.begin < tile.keys.end ? tile.keys.begin / run.block_keys * run.block_keys : 0;
  for (index_t begin = first; begin < tile.keys.end; begin += run.block_keys) {
    const block area = visible_block(tile, seq, batch, begin, begin + run.block_keys);
    if (area.key_begin >= area.key_end) continue;
    if (!hidden_too && run.rule.covers(area) == cover::none) continue;
    if (area.key_begin != now.end) {
      flush(area.key_begin);
      now.begin = area.key_begin;
    }
    now.end = area.key_end;
  }
  flush(run.call.seq_len_kv);
}

/// Weights of a tile, once row_max and exact_sum are final.
template <class Real>
void write_weights(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                   index_t kv_head, query_tile<Real>& tile) {
  operand const& weights = run.call.weights;
  for (index_t lane = 0; lane < tile.vectors * run.verb.lanes; ++lane) {
    tile.factor[lane] = tile.exact_sum[lane] == Real(0) ? Real(0) : Real(1) / tile.exact_sum[lane];
  }
  const bool hold_scores = weights_hold_scores<Real>(run.call);
  if (!hold_scores) {
    revisit_probabilities(run, work, seq, batch, kv_head, tile, [&](block const& area, index_t, key_rows<Real>) {
      const index_t lead = mod_pow2(area.key_begin, run.verb.keys_per_line());
      unpack(run, run.verb.unpack_tile, work, batch, tile, work.scores + lead * tile.vectors * run.verb.lanes,
             ones<Real>.lanes, weights, area.key_begin, area.key_end - area.key_begin);
    });
  }
  for_each_range(
      run, seq, batch, tile, false,
      [&](index_t begin, index_t end) {
        if (!hold_scores) return;
        run.verb.weigh_rows(static_cast<Real*>(weights.row(batch, tile.head, tile.query_begin)) + begin,
                            weights.strides[2], tile.rows, end - begin, run.to_exponent, tile.row_max, tile.factor);
      },
      [&](index_t begin, index_t end) {
        for (index_t row = 0; row < tile.rows; ++row) {
          fill_row(weights, batch, tile.head, tile.query_begin + row, begin, end, 0.0f);
        }
      });
}

/// The scores of a tile at keys that it has not been shown.
template <class Real>
void write_unseen_scores(kernel<Real> const& run, sequence const& seq, index_t batch, query_tile<Real>& tile) {
  for_each_range(
      run, seq, batch, tile, run.call.scores.show_hidden(), [](index_t, index_t) {},
      [&](index_t begin, index_t end) {
        for (index_t row = 0; row < tile.rows; ++row) {
          write_unseen_scores(run.call, batch, tile.head, tile.query_begin + row, begin, end);
        }
      });
}

}  // namespace HEED_ABI
}  // namespace heed::detail
