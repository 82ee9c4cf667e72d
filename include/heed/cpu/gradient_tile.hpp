// One query tile of a backward pass and one block of keys: score, differentiate, pass on to values, keys and queries.
#pragma once

#include "heed/cpu/gradient_rows.hpp"
#include "heed/cpu/tile_order.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// A block of scores in its tile, which begins with a whole line of keys.
struct tile_block {
  block area;
  index_t lanes;
  index_t lead;  // keys of the first line before those of `area`

  [[nodiscard]] index_t place(stretch const& part, int lanes_per_vector) const noexcept {
    return (lead + part.key_begin - area.key_begin) * lanes + index_t{part.first_vector} * lanes_per_vector;
  }
};

/// What is not computed of a block counts as 0 where the whole of it is looked at: other vectors, and what its lines
/// hold beside its keys.
template <class Real>
void clear_unseen(kernel<Real> const& run, tile_block const& at, stretches const& parts, Real* gradient) noexcept {
  const auto clear = [&](index_t row, index_t first, index_t end) {
    for (index_t lane = first; lane < end; ++lane) gradient[row * at.lanes + lane] = Real(0);
  };
  const index_t end = at.lead + at.area.key_end - at.area.key_begin;
  for (index_t row = 0; row < at.lead; ++row) clear(row, 0, at.lanes);
  for (index_t row = end; row < run.whole_lines(end); ++row) clear(row, 0, at.lanes);
  for (int i = 0; i < parts.count; ++i) {
    stretch const& part = parts.items[i];
    const bool none = part.seen == cover::none;
    const index_t first_row = at.lead + part.key_begin - at.area.key_begin;
    for (index_t row = first_row; row < first_row + part.key_end - part.key_begin; ++row) {
      clear(row, 0, none ? at.lanes : index_t{part.first_vector} * run.verb.lanes);
      if (!none) clear(row, index_t{part.end_vector} * run.verb.lanes, at.lanes);
    }
  }
}

/// Backwards through rule and soft cap, for a whole block, collecting what the stages want on the way.
template <class Real>
void pass_stages(gradient_call<Real> const& all, gradient_work<Real> const& work, gradient_tile<Real> const& tile,
                 tile_block const& at) {
  kernel<Real> const& run = all.run;
  const index_t keys = at.area.key_end - at.area.key_begin, first = at.lead * at.lanes;
  Real* const gradient = work.gradient + first;
  Real const* const before_rule = all.keeps_scores() ? work.forward.before_rule + first : nullptr;
  if (all.bends()) {
    const index_t room = work.forward.term_step;
    for (index_t number = 0; number < all.stage_count; ++number) {
      work.stage_tiles[number] = all.stages[number].wanted() ? work.stage_numbers + number * room : nullptr;
    }
    const block_terms<Real> terms{work.forward.terms, 0, 0};
    all.rule_gradient(run.rule.rule, before_rule, gradient, at.lanes, tile.vectors, at.area, terms, work.stage_tiles);
  }
  for (index_t number = 0; number < all.stage_count; ++number) {
    if (!all.stages[number].wanted()) continue;
    collect_stage(run, all.stages[number], at.area, tile.vectors, all.bends() ? work.stage_tiles[number] : gradient,
                  work.forward.spare, tile.slots);
  }
  if (run.cap != Real(0)) all.verb.cap_gradient(before_rule, gradient, keys, at.lanes, tile.vectors, run.cap);
}

/// The numbers of one stretch of a tile, as words, times rows of d_out or queries: to sums of its keys.
template <class Real>
void add_to_key_sums(gradient_call<Real> const& all, gradient_work<Real> const& work, gradient_tile<Real> const& tile,
                     tile_block const& at, stretch const& part, Real const* numbers, Real const* from, index_t columns,
                     Real* sums, Real const* careful) {
  kernel<Real> const& run = all.run;
  const index_t keys = part.key_end - part.key_begin, place = at.place(part, run.verb.lanes);
  const index_t skipped = index_t{part.first_vector} * run.verb.lanes;
  const int vectors = part.end_vector - part.first_vector;
  const index_t rows = lesser(tile.rows - skipped, vectors * index_t{run.verb.lanes});
  Real const* words = numbers + place;
  index_t stride = at.lanes;
  if (all.multiplies_pairs()) {
    all.verb.round_rows(words, at.lanes, vectors, rows, keys, work.row_words);
    words = work.row_words;
    stride = vectors * index_t{run.verb.lanes} / run.verb.elements_per_word;
  }
  from += skipped / run.verb.elements_per_word * columns;
  if (careful != nullptr) {
    return all.verb.key_gradients_visible(words, stride, careful + place, at.lanes, keys, from, rows, columns, sums);
  }
  all.verb.key_gradients(words, stride, keys, from, rows, columns, sums);
}

/// Probabilities and gradients of scores of one stretch, and what the values get from it.
template <class Real>
void differentiate_stretch(gradient_call<Real> const& all, gradient_work<Real> const& work,
                           gradient_tile<Real> const& tile, tile_block const& at, stretch const& part,
                           chunk_rows<Real> const& rows, Real const* careful) {
  kernel<Real> const& run = all.run;
  const index_t keys = part.key_end - part.key_begin, place = at.place(part, run.verb.lanes);
  const index_t skipped = index_t{part.first_vector} * run.verb.lanes;
  const int vectors = part.end_vector - part.first_vector;
  Real* const scores = work.forward.scores + place;
  Real* const gradient = work.gradient + place;
  for (index_t number = 0; number < all.stage_count; ++number) {
    want_sums<Real>(all.stages[number], at.area, part.key_begin, part.key_end, *work.forward.ahead);
  }
  run.verb.scores[vectors - 1](work.d_out_tile + skipped, rows.value.at(part.key_begin - rows.first), rows.value.stride,
                               keys, run.words_of(run.call.head_dim_v), at.lanes, gradient, work.row_max,
                               work.forward.hidden_max, work.forward.ahead->take(0));
  Real* keep = nullptr;
  if (all.drops()) {
    keep = work.keep + place;
    block some = at.area;
    some.key_begin = part.key_begin;
    some.key_end = part.key_end;
    some.query_begin += skipped;
    for (index_t key = 0; key < keys; ++key) {
      for (index_t lane = 0; lane < vectors * run.verb.lanes; ++lane) keep[key * at.lanes + lane] = Real(1);
    }
    run.verb.drop(keep, at.lanes, vectors, some, run.call.options.drop);
  }
  all.verb.differentiate(scores, gradient, keep, at.lanes, vectors, keys, run.score_unit, tile.lse + skipped,
                         tile.delta + skipped);
  if (!all.want.dv.given()) return;
  add_to_key_sums(all, work, tile, at, part, work.forward.scores, work.d_out, all.value_columns,
                  work.value_gradients + (part.key_begin - rows.begin) * all.value_columns, careful);
}

/// What queries get from the gradients of the scores of a block.
template <class Real>
void add_to_queries(gradient_call<Real> const& all, gradient_work<Real> const& work, gradient_tile<Real> const& tile,
                    tile_block const& at, stretches const& parts, chunk_rows<Real> const& rows, Real const* careful) {
  kernel<Real> const& run = all.run;
  const index_t step = run.verb.keys_per_line(), base = div_pow2(at.area.key_begin, step);
  const index_t keys = at.lead + at.area.key_end - at.area.key_begin;
  const auto lines_from = [&](index_t line) { return rows.key_lines.at(line - rows.first / step); };
  if (all.multiplies_pairs()) run.verb.round_pairs(work.gradient, run.whole_lines(keys), tile.vectors);
  if (careful != nullptr) {
    return run.verb.accumulate_visible(work.gradient, careful, lines_from(base), rows.key_lines.stride,
                                       run.whole_words(keys) / run.verb.elements_per_word, run.call.head_dim_qk,
                                       tile.vectors, tile.query_gradient, nullptr);
  }
  for (int i = 0; i < parts.count; ++i) {
    stretch const& part = parts.items[i];
    if (part.seen == cover::none) continue;
    const index_t first = part.key_begin / step, skipped = index_t{part.first_vector} * run.verb.lanes;
    run.verb.accumulate[part.end_vector - part.first_vector - 1](
        work.gradient + (first - base) * run.verb.words_per_line * at.lanes + skipped, lines_from(first),
        rows.key_lines.stride, ceil_div(part.key_end, step) - first, run.call.head_dim_qk, at.lanes,
        tile.query_gradient + skipped, tile.query_gradient + skipped, nullptr, work.forward.ahead->take(0));
  }
}

/// One tile and one block of keys. `is_careful`: what is hidden may be infinite or NaN, and is not touched. `wait` is
/// called before anything is added to what the tile shares with other chunks.
template <class Real, class Wait>
void differentiate_block(gradient_call<Real> const& all, gradient_work<Real>& work, gradient_tile<Real> const& tile,
                         block const& area, cover seen, chunk_rows<Real> const& rows, bool is_careful,
                         Wait const& wait) {
  kernel<Real> const& run = all.run;
  const tile_block at{area, index_t{tile.vectors} * run.verb.lanes, mod_pow2(area.key_begin, run.verb.keys_per_line())};
  query_tile<Real> queries{};
  queries.head = tile.head;
  queries.query_begin = tile.query_begin;
  queries.rows = tile.rows;
  queries.vectors = tile.vectors;
  queries.keys = tile.keys;
  queries.query = work.query_tile;
  queries.row_max = work.row_max;
  // The same rows meet the next keys next.
  work.forward.row_begin = area.query_begin;
  work.forward.row_end = area.query_end;
  const auto pass = [&](stretches const& parts) {
    const key_rows<Real> key{rows.key.at(area.key_begin - rows.first), rows.key.stride};
    const index_t keys = score_block(run, work.forward, queries, area, parts, key);
    for (index_t i = 0; is_careful && i < keys * at.lanes; ++i) work.seen_scores[i] = work.forward.scores[i];
    Real const* const careful = is_careful ? work.seen_scores : nullptr;
    const bool has_stages = all.bends() || all.wants_stages() || run.cap != Real(0);
    if (has_stages || is_careful || all.multiplies_pairs()) clear_unseen(run, at, parts, work.gradient);
    for (int i = 0; i < parts.count; ++i) {
      if (parts.items[i].seen == cover::none) continue;
      differentiate_stretch(all, work, tile, at, parts.items[i], rows, careful);
    }
    wait();
    if (has_stages) pass_stages(all, work, tile, at);
    for (int i = 0; all.want.dk.given() && i < parts.count; ++i) {
      stretch const& part = parts.items[i];
      if (part.seen == cover::none) continue;
      add_to_key_sums(all, work, tile, at, part, work.gradient, work.query, all.query_columns,
                      work.key_gradients + (part.key_begin - rows.begin) * all.query_columns, careful);
    }
    if (all.want.dq.given()) add_to_queries(all, work, tile, at, parts, rows, careful);
  };
  with_stretches(run, queries, area, seen, pass);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
