// One query tile of a backward pass and one block of keys: score, differentiate, pass on to values, keys and queries.
#pragma once

#include "heed/cpu/row_outputs.hpp"
#include "heed/cpu/stage_gradients.hpp"
#include "heed/cpu/tile.hpp"
#include "heed/cpu/tile_order.hpp"
#include "heed/view/backward_problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// One backward call on one instruction set.
template <class Real>
struct gradient_call {
  kernel<Real> const& run;
  gradient_verbs<Real> const& verb;
  rule_gradient_verb<Real> rule_gradient;  // null where no stage bends scores
  backward_problem const& want;
  stage_gradient* stages;  // of the rule, in the order written
  index_t stage_count;
  list<float> const* sinks;
  index_t sink_count;
  double* sink_totals = nullptr;  // [sinks, num_heads]
  index_t slots_per_tile = 0;     // the sinks' first
  index_t query_columns = 0;      // head_dim_qk and head_dim_v in whole vectors
  index_t value_columns = 0;
  index_t chunk_keys = 0;
  bool packs_key = false;
  bool packs_value = false;

  [[nodiscard]] bool bends() const noexcept { return rule_gradient != nullptr; }
  [[nodiscard]] bool drops() const noexcept { return run.call.drops(); }
  [[nodiscard]] bool keeps_scores() const noexcept { return bends() || run.cap != Real(0); }
  [[nodiscard]] bool wants_stages() const noexcept {
    for (index_t number = 0; number < stage_count; ++number) {
      if (stages[number].wanted()) return true;
    }
    return false;
  }
};

/// Query rows of one head, and what they keep from chunk to chunk.
template <class Real>
struct gradient_tile {
  index_t head;
  index_t query_begin;
  index_t rows;
  int vectors;
  key_range keys;        // outside of these nothing is visible
  Real* lse;             // [lanes]
  Real* delta;           // [lanes]: d_out . out - d_lse
  Real* query_gradient;  // [head_dim_qk, lanes], not yet scaled
  double* slots;         // what it adds to the gradients of sinks and stages

  /// Its block of scores with keys [begin, end).
  [[nodiscard]] block part(sequence const& seq, index_t batch, index_t begin, index_t end) const noexcept {
    return {batch,     head, query_begin, query_begin + rows, greater(begin, keys.begin), lesser(end, keys.end),
            seq.offset};
  }
};

/// What one thread works in.
template <class Real>
struct gradient_work {
  workspace<Real> forward;
  Real* row_max;          // [lanes], -inf: the maximum is not looked for
  Real* gradient;         // [block_keys, lanes]
  Real* seen_scores;      // the same: scores, where what is hidden must not be touched
  Real* keep;             // the same, of dropout; null without
  Real** stage_tiles;     // [stages]: where each stage's gradient is
  Real* stage_numbers;    // [stages, block_keys, lanes], where stages bend scores
  Real* query;            // [lanes, query_columns]: rows
  Real* query_tile;       // [head_dim_qk, lanes], scaled
  Real* d_out;            // [lanes, value_columns]
  Real* d_out_tile;       // [head_dim_v, lanes]
  Real* out;              // [lanes, value_columns]: rows, at first
  Real* key_gradients;    // [chunk_keys, query_columns], not yet scaled
  Real* value_gradients;  // [chunk_keys, value_columns]
  Real* key;              // [chunk_keys, head_dim_qk], if packed
  Real* value;
};

/// The keys of one chunk.
template <class Real>
struct chunk_rows {
  index_t begin;  // of the chunk: where its gradients begin
  index_t first;  // the first key that is read
  key_rows<Real> key, value;
  bool is_finite;
};

/// Rows of a tile: [rows, columns in whole vectors].
template <class Real>
void load_rows(gradient_call<Real> const& all, gradient_work<Real> const& work, operand const& box, index_t batch,
               gradient_tile<Real> const& tile, index_t columns, Real* rows) {
  const index_t width = box.extents[3];
  Real* const packed = columns == width ? rows : work.forward.spare;
  all.run.verb.pack_rows(box.row(batch, tile.head, tile.query_begin), box.kind, box.strides[2], box.strides[3],
                         tile.rows, width, packed);
  if (packed == rows) return;
  for (index_t row = 0; row < tile.rows; ++row) {
    for (index_t column = 0; column < columns; ++column) {
      rows[row * columns + column] = column < width ? packed[row * width + column] : Real(0);
    }
  }
}

/// Queries and d_out of a tile, as rows and with the rows in the lanes. Returns whether they hold no infinity and no
/// NaN.
template <class Real>
[[nodiscard]] bool load_tile(gradient_call<Real> const& all, gradient_work<Real> const& work, index_t batch,
                             gradient_tile<Real> const& tile) {
  kernel<Real> const& run = all.run;
  load_rows(all, work, run.call.query, batch, tile, all.query_columns, work.query);
  load_rows(all, work, all.want.d_out, batch, tile, all.value_columns, work.d_out);
  run.verb.pack_query(work.query, all.query_columns, tile.rows, run.call.head_dim_qk, run.scale, tile.vectors,
                      work.query_tile);
  run.verb.pack_query(work.d_out, all.value_columns, tile.rows, run.call.head_dim_v, Real(1), tile.vectors,
                      work.d_out_tile);
  return all.verb.all_finite(work.query, tile.rows, all.query_columns, all.query_columns) &&
         all.verb.all_finite(work.d_out, tile.rows, all.value_columns, all.value_columns);
}

[[nodiscard]] inline double number_at(operand const& box, index_t batch, index_t head, index_t row) noexcept {
  double value = 0;
  with_element(box.kind, [&](auto element) {
    value = static_cast<double>(*static_cast<decltype(element) const*>(box.row(batch, head, row)));
  });
  return value;
}

/// lse, delta and the sinks' share of a tile, from what the forward pass left, and a gradient of 0. Lanes without a row
/// repeat the last one.
template <class Real>
void open_tile(gradient_call<Real> const& all, gradient_work<Real> const& work, index_t batch,
               gradient_tile<Real>& tile) {
  kernel<Real> const& run = all.run;
  backward_problem const& want = all.want;
  const index_t lanes = index_t{tile.vectors} * run.verb.lanes;
  load_rows(all, work, want.d_out, batch, tile, all.value_columns, work.d_out);
  load_rows(all, work, want.out, batch, tile, all.value_columns, work.out);
  all.verb.row_dots(work.d_out, work.out, tile.rows, all.value_columns, tile.delta);
  for (index_t lane = 0; lane < lanes; ++lane) {
    const index_t row = tile.query_begin + lesser(lane, tile.rows - 1);
    tile.lse[lane] = static_cast<Real>(number_at(want.lse, batch, tile.head, row));
    if (want.d_lse.given()) tile.delta[lane] -= static_cast<Real>(number_at(want.d_lse, batch, tile.head, row));
  }
  for (index_t i = 0; i < run.call.head_dim_qk * lanes; ++i) tile.query_gradient[i] = Real(0);
  for (index_t slot = 0; slot < all.slots_per_tile; ++slot) tile.slots[slot] = 0;
  for (index_t number = 0; number < all.sink_count; ++number) {
    const double logit = static_cast<double>(all.sinks[number][tile.head]);
    for (index_t row = 0; row < tile.rows && logit != -infinity<double>; ++row) {
      const double weight = __builtin_exp(logit - static_cast<double>(tile.lse[row]));
      tile.slots[number] -= weight * static_cast<double>(tile.delta[row]);
    }
  }
}

/// K and V of a chunk, where they lie or packed, and gradients of 0. Keys outside the sequence are not read.
template <class Real>
[[nodiscard]] chunk_rows<Real> load_chunk(gradient_call<Real> const& all, gradient_work<Real> const& work,
                                          sequence const& seq, index_t batch, index_t kv_head, index_t begin,
                                          index_t end) {
  kernel<Real> const& run = all.run;
  const auto clear = [&](Real* numbers, index_t columns) {
    for (index_t i = 0; i < (end - begin) * columns; ++i) numbers[i] = Real(0);
  };
  clear(work.key_gradients, all.query_columns);
  clear(work.value_gradients, all.value_columns);
  chunk_rows<Real> rows{begin, greater(begin, seq.key_begin), {}, {}, true};
  const index_t last = lesser(end, seq.key_end);
  if (rows.first >= last) return rows;
  rows.key = rows_of_key<Real>(run, all.packs_key ? work.key : nullptr, batch, kv_head, rows.first, last);
  rows.value = rows_of_value<Real>(run, all.packs_value ? work.value : nullptr, batch, kv_head, rows.first, last);
  const index_t count = last - rows.first;
  rows.is_finite = all.verb.all_finite(rows.key.first, count, rows.key.stride, run.call.head_dim_qk) &&
                   all.verb.all_finite(rows.value.first, count, rows.value.stride, run.call.head_dim_v);
  return rows;
}

/// What is not computed of a block counts as 0 where the whole of it is looked at.
template <class Real>
void clear_unseen(Real* gradient, index_t lanes, index_t first_key, stretch const& part,
                  int lanes_per_vector) noexcept {
  const index_t first = part.seen == cover::none ? lanes : index_t{part.first_vector} * lanes_per_vector;
  const index_t end = part.seen == cover::none ? lanes : index_t{part.end_vector} * lanes_per_vector;
  for (index_t key = part.key_begin - first_key; key < part.key_end - first_key; ++key) {
    for (index_t lane = 0; lane < first; ++lane) gradient[key * lanes + lane] = Real(0);
    for (index_t lane = end; lane < lanes; ++lane) gradient[key * lanes + lane] = Real(0);
  }
}

/// Backwards through rule and soft cap, for a whole block, collecting what the stages want on the way.
template <class Real>
void pass_stages(gradient_call<Real> const& all, gradient_work<Real> const& work, gradient_tile<Real> const& tile,
                 block const& area) {
  kernel<Real> const& run = all.run;
  const index_t lanes = index_t{tile.vectors} * run.verb.lanes, keys = area.key_end - area.key_begin;
  if (all.bends()) {
    const index_t room = work.forward.term_step;
    for (index_t number = 0; number < all.stage_count; ++number) {
      work.stage_tiles[number] = all.stages[number].wanted() ? work.stage_numbers + number * room : nullptr;
    }
    const block_terms<Real> terms{work.forward.terms, 0, 0};
    all.rule_gradient(run.rule.rule, work.forward.before_rule, work.gradient, lanes, tile.vectors, area, terms,
                      work.stage_tiles);
  }
  for (index_t number = 0; number < all.stage_count; ++number) {
    if (!all.stages[number].wanted()) continue;
    collect_stage(run, all.stages[number], area, tile.vectors, all.bends() ? work.stage_tiles[number] : work.gradient,
                  work.forward.spare, tile.slots);
  }
  if (run.cap != Real(0)) {
    all.verb.cap_gradient(work.forward.before_rule, work.gradient, keys, lanes, tile.vectors, run.cap);
  }
}

/// Probabilities and gradients of scores of one stretch, and what the values get from it.
template <class Real>
void differentiate_stretch(gradient_call<Real> const& all, gradient_work<Real> const& work,
                           gradient_tile<Real> const& tile, block const& area, stretch const& part,
                           chunk_rows<Real> const& rows, Real const* careful) {
  kernel<Real> const& run = all.run;
  const index_t lanes = index_t{tile.vectors} * run.verb.lanes, keys = part.key_end - part.key_begin;
  const index_t skipped = index_t{part.first_vector} * run.verb.lanes;
  const int vectors = part.end_vector - part.first_vector;
  const index_t place = (part.key_begin - area.key_begin) * lanes + skipped;
  Real* const scores = work.forward.scores + place;
  Real* const gradient = work.gradient + place;
  run.verb.scores[vectors - 1](work.d_out_tile + skipped, rows.value.at(part.key_begin - rows.first), rows.value.stride,
                               keys, run.call.head_dim_v, lanes, gradient, work.row_max, work.forward.hidden_max,
                               work.forward.ahead->take(0));
  Real* keep = nullptr;
  if (all.drops()) {
    keep = work.keep + place;
    block some = area;
    some.key_begin = part.key_begin;
    some.key_end = part.key_end;
    some.query_begin += skipped;
    for (index_t key = 0; key < keys; ++key) {
      for (index_t lane = 0; lane < vectors * run.verb.lanes; ++lane) keep[key * lanes + lane] = Real(1);
    }
    run.verb.drop(keep, lanes, vectors, some, run.call.options.drop);
  }
  all.verb.differentiate(scores, gradient, keep, lanes, vectors, keys, run.to_exponent, tile.lse + skipped,
                         tile.delta + skipped);
  if (!all.want.dv.given()) return;
  const index_t count = lesser(tile.rows - skipped, vectors * index_t{run.verb.lanes});
  Real* const to = work.value_gradients + (part.key_begin - rows.begin) * all.value_columns;
  Real const* const from = work.d_out + skipped * all.value_columns;
  if (careful != nullptr) {
    return all.verb.key_gradients_visible(scores, careful + place, lanes, keys, from, count, all.value_columns, to);
  }
  all.verb.key_gradients(scores, lanes, keys, from, count, all.value_columns, to);
}

/// What keys and queries get from the gradients of one stretch of scores.
template <class Real>
void pass_stretch(gradient_call<Real> const& all, gradient_work<Real> const& work, gradient_tile<Real> const& tile,
                  block const& area, stretch const& part, chunk_rows<Real> const& rows, Real const* careful) {
  kernel<Real> const& run = all.run;
  const index_t lanes = index_t{tile.vectors} * run.verb.lanes, keys = part.key_end - part.key_begin;
  const index_t skipped = index_t{part.first_vector} * run.verb.lanes;
  const int vectors = part.end_vector - part.first_vector;
  const index_t place = (part.key_begin - area.key_begin) * lanes + skipped;
  Real const* const gradient = work.gradient + place;
  if (all.want.dk.given()) {
    const index_t count = lesser(tile.rows - skipped, vectors * index_t{run.verb.lanes});
    Real* const to = work.key_gradients + (part.key_begin - rows.begin) * all.query_columns;
    Real const* const from = work.query + skipped * all.query_columns;
    if (careful != nullptr) {
      all.verb.key_gradients_visible(gradient, careful + place, lanes, keys, from, count, all.query_columns, to);
    } else {
      all.verb.key_gradients(gradient, lanes, keys, from, count, all.query_columns, to);
    }
  }
  if (!all.want.dq.given()) return;
  Real const* const key = rows.key.at(part.key_begin - rows.first);
  if (careful != nullptr) {  // then the stretch is the whole block
    run.verb.accumulate_visible(gradient, careful, key, rows.key.stride, keys, run.call.head_dim_qk, tile.vectors,
                                tile.query_gradient, ones<Real>.lanes);
  } else {
    run.verb.accumulate[vectors - 1](gradient, key, rows.key.stride, keys, run.call.head_dim_qk, lanes,
                                     tile.query_gradient + skipped, ones<Real>.lanes, work.forward.ahead->take(0));
  }
}

/// One tile and one block of keys. `is_careful`: what is hidden may be infinite or NaN, and is not touched. `wait` is
/// called before anything is added to what the tile shares with other chunks.
template <class Real, class Wait>
void differentiate_block(gradient_call<Real> const& all, gradient_work<Real>& work, gradient_tile<Real> const& tile,
                         block const& area, cover seen, chunk_rows<Real> const& rows, bool is_careful,
                         Wait const& wait) {
  kernel<Real> const& run = all.run;
  const index_t lanes = index_t{tile.vectors} * run.verb.lanes;
  query_tile<Real> queries{};
  queries.head = tile.head;
  queries.query_begin = tile.query_begin;
  queries.rows = tile.rows;
  queries.vectors = tile.vectors;
  queries.keys = tile.keys;
  queries.query = work.query_tile;
  queries.row_max = work.row_max;
  const auto pass = [&](stretches const& parts) {
    const key_rows<Real> key{rows.key.at(area.key_begin - rows.first), rows.key.stride};
    const index_t keys = score_block(run, work.forward, queries, area, parts, key);
    for (index_t i = 0; is_careful && i < keys * lanes; ++i) work.seen_scores[i] = work.forward.scores[i];
    Real const* const careful = is_careful ? work.seen_scores : nullptr;
    const bool is_whole = all.bends() || all.wants_stages() || run.cap != Real(0);
    for (int i = 0; i < parts.count; ++i) {
      stretch const& part = parts.items[i];
      if (is_whole) clear_unseen(work.gradient, lanes, area.key_begin, part, run.verb.lanes);
      if (part.seen != cover::none) differentiate_stretch(all, work, tile, area, part, rows, careful);
    }
    wait();
    if (is_whole) pass_stages(all, work, tile, area);
    for (int i = 0; i < parts.count; ++i) {
      if (parts.items[i].seen != cover::none) pass_stretch(all, work, tile, area, parts.items[i], rows, careful);
    }
  };
  if (is_careful) {
    const stretch whole{area.key_begin, area.key_end, seen, 0, tile.vectors};
    pass(stretches{&whole, 1});
  } else {
    with_stretches(run, queries, area, seen, pass);
  }
}

/// Rows [rows, columns] of sums times `scale`, of which the caller's are `width` wide: to the caller's rows.
template <class Real>
void write_rows(kernel<Real> const& run, Real* sums, index_t rows, index_t columns, Real scale, operand const& to,
                index_t batch, index_t head, index_t first) noexcept {
  const index_t width = to.extents[3];
  for (index_t row = 0; row < rows; ++row) {
    for (index_t column = 0; column < width; ++column) {
      sums[row * width + column] = (sums[row * columns + column] + Real(0)) * scale;
    }
  }
  run.verb.unpack_rows(sums, rows, width, to.row(batch, head, first), to.kind, to.strides[2], to.strides[3]);
}

/// The gradients of K and V of keys [begin, end), which no other chunk adds to.
template <class Real>
void write_key_gradients(gradient_call<Real> const& all, gradient_work<Real> const& work, index_t batch,
                         index_t kv_head, index_t begin, index_t end) noexcept {
  if (all.want.dk.given()) {
    write_rows(all.run, work.key_gradients, end - begin, all.query_columns, all.run.scale, all.want.dk, batch, kv_head,
               begin);
  }
  if (all.want.dv.given()) {
    write_rows(all.run, work.value_gradients, end - begin, all.value_columns, Real(1), all.want.dv, batch, kv_head,
               begin);
  }
}

/// The gradients of a tile's queries.
template <class Real>
void write_query_gradients(gradient_call<Real> const& all, gradient_work<Real> const& work, index_t batch,
                           gradient_tile<Real> const& tile) noexcept {
  if (!all.want.dq.given()) return;
  Real* const scale = work.forward.rescale;
  for (index_t lane = 0; lane < tile.vectors * index_t{all.run.verb.lanes}; ++lane) scale[lane] = all.run.scale;
  query_tile<Real> queries{};
  queries.head = tile.head;
  queries.query_begin = tile.query_begin;
  queries.rows = tile.rows;
  queries.vectors = tile.vectors;
  unpack(all.run, work.forward, batch, queries, tile.query_gradient, scale, all.want.dq, 0, all.run.call.head_dim_qk);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
