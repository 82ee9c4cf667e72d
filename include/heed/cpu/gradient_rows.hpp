// What a backward pass works with: its operands as rows and tiles of words, on the way in and on the way out.
#pragma once

#include "heed/cpu/row_outputs.hpp"
#include "heed/cpu/stage_gradients.hpp"
#include "heed/cpu/tile.hpp"
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

  /// Whether words are pairs: of d_out and query also those of neighbouring rows, of key those of neighbouring keys.
  [[nodiscard]] bool multiplies_pairs() const noexcept { return run.verb.elements_per_word > 1; }
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
  Real* query;            // [lanes, query_columns]: rows, or pairs of rows
  Real* query_tile;       // [words of head_dim_qk, lanes], scaled unless they are pairs
  Real* d_out;            // [lanes, value_columns]
  Real* d_out_tile;       // [words of head_dim_v, lanes]
  Real* out;              // [lanes, value_columns]: rows, at first
  Real* key_gradients;    // [chunk_keys, query_columns], not yet scaled
  Real* value_gradients;  // [chunk_keys, value_columns]
  Real* key;              // [chunk_keys, words of head_dim_qk], if packed
  Real* value;
  Real* key_lines;  // [lines of chunk_keys, head_dim_qk, words_per_line], of pairs
  Real* row_words;  // [block_keys, lanes / 2], of pairs: probabilities or gradients of scores
};

/// The keys of one chunk.
template <class Real>
struct chunk_rows {
  index_t begin;  // of the chunk: where its gradients begin
  index_t first;  // the first key that is read
  key_rows<Real> key, value;
  key_rows<Real> key_lines;  // of K as the verb accumulate takes it, from the line of `first` on
  bool is_finite;
};

/// Rows of a tile in the accumulate type: [rows, columns in whole vectors].
template <class Real>
void load_rows(gradient_call<Real> const& all, gradient_work<Real> const& work, operand const& box, index_t batch,
               gradient_tile<Real> const& tile, index_t columns, Real* rows) {
  const index_t width = box.extents[3];
  Real* const packed = columns == width ? rows : work.forward.spare;
  all.verb.widen_rows(box.row(batch, tile.head, tile.query_begin), box.kind, box.strides[2], box.strides[3], tile.rows,
                      width, packed);
  if (packed == rows) return;
  for (index_t row = 0; row < tile.rows; ++row) {
    for (index_t column = 0; column < columns; ++column) {
      rows[row * columns + column] = column < width ? packed[row * width + column] : Real(0);
    }
  }
}

/// Rows of a tile as words for the verb key_gradients, and with the rows in the lanes, times scale. Returns whether
/// they hold no infinity and no NaN.
template <class Real>
[[nodiscard]] bool load_words(gradient_call<Real> const& all, gradient_work<Real> const& work, operand const& box,
                              index_t batch, gradient_tile<Real> const& tile, index_t columns, Real scale, Real* rows,
                              Real* lanes) {
  kernel<Real> const& run = all.run;
  if (!all.multiplies_pairs()) {
    load_rows(all, work, box, batch, tile, columns, rows);
    run.verb.pack_query(rows, columns, tile.rows, box.extents[3], scale, tile.vectors, lanes);
    return all.verb.all_finite(rows, tile.rows, columns, columns);
  }
  const index_t words = run.words_of(box.extents[3]), begin = tile.query_begin;
  Real* const pairs = work.forward.spare;  // of neighbours in a row
  pack_key_rows(run, box, batch, tile.head, begin, begin + tile.rows, pairs);
  run.verb.pack_query(pairs, words, tile.rows, words, scale, tile.vectors, lanes);
  all.verb.pair_rows(box.row(batch, tile.head, begin), box.strides[2], box.strides[3], tile.rows, box.extents[3],
                     columns, rows);
  return all.verb.all_finite(pairs, tile.rows, words, words);
}

/// Queries and d_out of a tile.
template <class Real>
[[nodiscard]] bool load_tile(gradient_call<Real> const& all, gradient_work<Real> const& work, index_t batch,
                             gradient_tile<Real> const& tile) {
  const bool is_query_finite = load_words(all, work, all.run.call.query, batch, tile, all.query_columns, all.run.scale,
                                          work.query, work.query_tile);
  return load_words(all, work, all.want.d_out, batch, tile, all.value_columns, Real(1), work.d_out, work.d_out_tile) &&
         is_query_finite;
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
  chunk_rows<Real> rows{begin, greater(begin, seq.key_begin), {}, {}, {}, true};
  const index_t last = lesser(end, seq.key_end);
  if (rows.first >= last) return rows;
  problem const& call = run.call;
  rows.key = rows_like_key(run, call.key, all.packs_key ? work.key : nullptr, batch, kv_head, rows.first, last);
  rows.value = rows_like_key(run, call.value, all.packs_value ? work.value : nullptr, batch, kv_head, rows.first, last);
  rows.key_lines = rows.key;
  if (all.multiplies_pairs()) {
    pack_value_rows(run, call.key, batch, kv_head, rows.first, last, work.key_lines);
    rows.key_lines = {work.key_lines, call.head_dim_qk * run.verb.words_per_line};
  }
  const index_t count = last - rows.first;
  rows.is_finite = all.verb.all_finite(rows.key.first, count, rows.key.stride, run.query_words()) &&
                   all.verb.all_finite(rows.value.first, count, rows.value.stride, run.words_of(call.head_dim_v));
  return rows;
}

/// Rows [rows, columns] of sums times `scale`, of which the caller's are `width` wide: to the caller's rows.
template <class Real>
void write_rows(gradient_call<Real> const& all, Real* sums, index_t rows, index_t columns, Real scale,
                operand const& to, index_t batch, index_t head, index_t first) noexcept {
  const index_t width = to.extents[3];
  for (index_t row = 0; row < rows; ++row) {
    (void)all.verb.scale_row(sums + row * columns, columns, scale, sums + row * width);
  }
  all.run.verb.unpack_rows(sums, rows, width, to.row(batch, head, first), to.kind, to.strides[2], to.strides[3]);
}

/// The gradients of K and V of keys [begin, end), which no other chunk adds to.
template <class Real>
void write_key_gradients(gradient_call<Real> const& all, gradient_work<Real> const& work, index_t batch,
                         index_t kv_head, index_t begin, index_t end) noexcept {
  if (all.want.dk.given()) {
    write_rows(all, work.key_gradients, end - begin, all.query_columns, all.run.scale, all.want.dk, batch, kv_head,
               begin);
  }
  if (all.want.dv.given()) {
    write_rows(all, work.value_gradients, end - begin, all.value_columns, Real(1), all.want.dv, batch, kv_head, begin);
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
  unpack(all.run, all.run.verb.unpack_tile, work.forward, batch, queries, tile.query_gradient, scale, all.want.dq, 0,
         all.run.call.head_dim_qk);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
