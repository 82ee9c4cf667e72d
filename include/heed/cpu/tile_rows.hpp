// From a tile to the rows of an output: what is written while the keys pass, the scores.
#pragma once

#include "heed/cpu/query_tile.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Columns [column, column + columns) of the rows of `to`, out of a tile of that many columns, each row times its
/// factor.
template <class Real>
void unpack(kernel<Real> const& run, unpack_verb<Real> verb, workspace<Real> const& work, index_t batch,
            query_tile<Real> const& tile, Real const* from, Real const* factor, operand const& to, index_t column,
            index_t columns) noexcept {
  char* const corner =
      static_cast<char*>(to.row(batch, tile.head, tile.query_begin)) + column * to.strides[3] * element_size(to.kind);
  if (has_plain_rows<Real>(to)) {
    return verb(from, factor, tile.vectors, tile.rows, columns, reinterpret_cast<Real*>(corner), to.strides[2]);
  }
  verb(from, factor, tile.vectors, tile.rows, columns, work.spare, columns);
  run.verb.unpack_rows(work.spare, tile.rows, columns, corner, to.kind, to.strides[2], to.strides[3]);
}

/// Asks for the place of what is written next: its rows lie far apart, where no hardware prefetcher follows. One output
/// at a time, and terms of dense stages come first.
template <class Real>
void want_shown(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                block const& area) noexcept {
  operand const* to = nullptr;
  if (weights_hold_scores<Real>(run.call)) to = &run.call.weights;
  for (score_output const& one : run.call.scores) to = &one.to;
  if (to == nullptr || to->strides[3] != 1 || run.rule.dense_stages() > 0) return;
  const index_t bytes = element_size(to->kind);
  char const* const first = static_cast<char const*>(to->row(area.batch, tile.head, tile.query_begin));
  work.ahead->want_rows(first + area.key_begin * bytes, (area.key_end - area.key_begin) * bytes,
                        to->strides[2] * bytes);
}

/// Scores [keys, lanes] of a block, as the caller wants to see them at this stage; `unit`: what 1 stands for.
template <class Real>
void show_scores(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile, block const& area,
                 Real const* scores, score_stage stage, Real unit) noexcept {
  if (!run.call.scores.has(stage)) return;
  Real* const factor = work.rescale;  // not yet in use
  for (index_t lane = 0; lane < tile.vectors * run.verb.lanes; ++lane) factor[lane] = unit;
  for (score_output const& one : run.call.scores) {
    if (one.stage != stage) continue;
    unpack(run, run.verb.unpack_tile, work, area.batch, tile, scores, factor, one.to, area.key_begin,
           area.key_end - area.key_begin);
  }
}

/// The scores of the block in work.scores, as they are softmaxed.
template <class Real>
void show_after_rule(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                     block const& area, cover seen) noexcept {
  Real const* const scores =
      work.scores + mod_pow2(area.key_begin, run.verb.keys_per_line()) * tile.vectors * run.verb.lanes;
  show_scores(run, work, tile, area, scores, score_stage::biased, run.score_unit);
  if (seen == cover::none || !weights_hold_scores<Real>(run.call)) return;
  unpack(run, run.verb.unpack_tile, work, area.batch, tile, scores, ones<Real>.lanes, run.call.weights, area.key_begin,
         area.key_end - area.key_begin);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
