// The walk of query tiles over the blocks of keys: what is skipped, what is packed, what a verb is given.
#pragma once

#include "heed/base/fill.hpp"
#include "heed/base/function_ref.hpp"
#include "heed/cpu/stretches.hpp"
#include "heed/cpu/terms.hpp"
#include "heed/cpu/tile_rows.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// What is done with a block.
template <class Real>
struct tile_visit {
  using type = function_ref<void(query_tile<Real>&, block const&, cover, key_rows<Real>, key_rows<Real>)>;
};

/// Asks for the keys [begin, end) of K or V: where they have been packed, or where they lie if they lie together.
template <class Real>
void want_rows_of(kernel<Real> const& run, operand const& box, packed_heads<Real> const& packed, index_t keys_per_row,
                  index_t batch, index_t kv_head, index_t begin, index_t end, read_ahead& ahead) noexcept {
  if (packed.first != nullptr) {
    const key_rows<Real> rows = packed_rows(run, packed, batch, kv_head, div_pow2(begin, keys_per_row));
    const index_t words = ceil_div_pow2(end - begin, keys_per_row) * rows.stride;
    ahead.want_of_block(rows.first, words * static_cast<index_t>(sizeof(Real)));
  } else if (box.strides[2] == box.extents[3] && box.strides[3] == 1) {
    ahead.want_of_block(box.row(batch, kv_head, begin), (end - begin) * box.extents[3] * element_size(box.kind));
  }
}

/// Asks for the keys [begin, end), which the next block will probably use, and for no other block.
template <class Real>
void want_block(kernel<Real> const& run, index_t batch, index_t kv_head, index_t begin, index_t end,
                read_ahead& ahead) noexcept {
  ahead.begin_block();
  if (begin >= end) return;
  want_rows_of(run, run.call.key, run.key, 1, batch, kv_head, begin, end, ahead);
  want_rows_of(run, run.call.value, run.value, run.verb.keys_per_line(), batch, kv_head, begin, end, ahead);
}

/// Calls `visit(tile, area, cover, key rows, value rows)` for each block that a tile may see, keys outer, tiles inner,
/// so that all tiles use a block of K and V while it is near. Blocks that a rule hides are never read, but where
/// `hidden_too`.
template <class Real>
void walk_keys(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
               index_t kv_head, query_tile<Real>* tiles, int tile_count, bool hidden_too,
               typename tile_visit<Real>::type visit) {
  key_range all{seq.key_end, seq.key_begin};
  for (int t = 0; t < tile_count; ++t) {
    if (tiles[t].keys.begin >= tiles[t].keys.end) continue;
    all = {lesser(all.begin, tiles[t].keys.begin), greater(all.end, tiles[t].keys.end)};
  }
  index_t run_end = all.begin;
  for (index_t begin = round_down_pow2(all.begin, run.block_keys); begin < all.end; begin += run.block_keys) {
    const index_t end = lesser(begin + run.block_keys, all.end);
    const index_t first = greater(begin, all.begin);
    const int step = run.verb.keys_per_line();
    bool loaded = false;
    key_rows<Real> key{}, value{};
    for (int t = 0; t < tile_count; ++t) {
      const block area = visible_block(tiles[t], seq, batch, first, end);
      if (area.key_begin >= area.key_end) continue;
      const cover seen = run.rule.covers(area);
      if (seen == cover::none && !hidden_too) continue;
      if (!loaded) {
        key = rows_of_key(run, work.key, batch, kv_head, first, end);
        value = rows_of_value(run, work.value, batch, kv_head, first, end);
        // Behind a block that the rule hid there may be more of them.
        const bool is_in_a_run = first == run_end;
        run_end = end;
        want_block(run, batch, kv_head, end, is_in_a_run ? lesser(end + run.block_keys, all.end) : end, *work.ahead);
        loaded = true;
      }
      visit(tiles[t], area, seen, key_rows<Real>{key.at(area.key_begin - first), key.stride},
            key_rows<Real>{value.at(div_pow2(area.key_begin, step) - div_pow2(first, step)), value.stride});
    }
  }
}

/// Scores of the keys and vectors of one stretch, from `scores` on. block_max = max(row_max, them).
template <class Real>
void compute_scores(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                    stretch const& part, key_rows<Real> key, Real* scores, Real const* row_max, Real* block_max) {
  const index_t keys = part.key_end - part.key_begin;
  const int vectors = part.end_vector - part.first_vector;
  run.verb.scores[vectors - 1](
      tile.query + part.first_vector * run.verb.lanes, key.first, key.stride, keys, run.query_words(),
      tile.vectors * run.verb.lanes, scores, row_max, block_max,
      work.ahead->take(run.verb.register_tiles(keys, vectors) * run.verb.steps(run.query_words())));
}

/// Scores [keys, lanes], `vectors` of them, as the rule is given them: to where they are kept for later, if they are.
/// What no rule is asked about is kept as 0.
template <class Real>
void keep_before_rule(workspace<Real> const& work, Real const* scores, index_t keys, index_t lanes, index_t used,
                      bool is_asked) noexcept {
  if (work.before_rule == nullptr) return;
  Real* const kept = work.before_rule + (scores - work.scores);
  for (index_t key = 0; key < keys; ++key) {
    for (index_t lane = 0; lane < used; ++lane) {
      kept[key * lanes + lane] = is_asked ? scores[key * lanes + lane] : Real(0);
    }
  }
}

/// Scores of the keys of one stretch, from `scores` on, through the soft cap and the rule, and block_max =
/// max(block_max, those that are visible). `is_capped`: they are there already, of all vectors, before the rule.
template <class Real>
void score_stretch(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                   block const& area, stretch part, key_rows<Real> key, bool is_capped, Real const* row_max,
                   Real* scores) {
  const index_t lanes = tile.vectors * run.verb.lanes;
  const index_t keys = part.key_end - part.key_begin;
  if (is_capped && part.seen != cover::none) {
    // The rule hides what a narrower stretch would leave out, and knows what counts for the maximum.
    if (!run.rule.adjusts()) part.seen = cover::partial;
    part.first_vector = 0;
    part.end_vector = tile.vectors;
  }
  if (part.seen == cover::none || part.end_vector - part.first_vector < tile.vectors) {
    fill(scores, keys * lanes, -infinity<Real>);
    keep_before_rule(work, scores, keys, lanes, lanes, false);
  }
  if (part.seen == cover::none) return;
  const index_t skipped = part.first_vector * run.verb.lanes;
  const int vectors = part.end_vector - part.first_vector;
  const bool is_ruled = part.seen == cover::partial || run.rule.adjusts();
  // Only the last step knows which scores count for the maximum, and what they are.
  Real* const highest = work.block_max + skipped;
  Real* const not_yet = work.hidden_max + skipped;
  scores += skipped;
  if (!is_capped) {
    compute_scores(run, work, tile, part, key, scores, row_max + skipped, is_ruled || run.caps() ? not_yet : highest);
    if (run.caps()) {
      run.verb.cap_scores(scores, keys, lanes, vectors, run.rule_unit, run.cap, highest, is_ruled ? not_yet : highest);
    }
  }
  keep_before_rule(work, scores, keys, lanes, vectors * run.verb.lanes, true);
  if (!is_ruled) return;
  block rows = area;
  rows.key_begin = part.key_begin;
  rows.key_end = part.key_end;
  rows.query_begin += skipped;
  rows.query_end = lesser(rows.query_end, rows.query_begin + vectors * run.verb.lanes);
  const block_terms<Real> terms{work.terms, skipped, part.key_begin - area.key_begin};
  run.rule_verb.apply(run.rule.rule, scores, lanes, vectors, rows, part.seen, terms, highest, highest);
}

/// Scores of a whole block before the rule, written for the caller as they come.
template <class Real>
void show_before_rule(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                      block const& area, key_rows<Real> key, Real* scores) {
  const stretch whole{area.key_begin, area.key_end, cover::full, 0, tile.vectors};
  compute_scores(run, work, tile, whole, key, scores, work.block_max, work.hidden_max);
  show_scores(run, work, tile, area, scores, score_stage::raw, run.rule_unit * run.score_unit);
  if (run.caps()) {
    run.verb.cap_scores(scores, area.key_end - area.key_begin, tile.vectors * run.verb.lanes, tile.vectors,
                        run.rule_unit, run.cap, work.block_max, work.hidden_max);
  }
  show_scores(run, work, tile, area, scores, score_stage::capped, run.score_unit);
}

/// Scores of one block, in work.scores, stretch by stretch: from the beginning of a line to the end of a word, and keys
/// outside of the area are -inf. Returns how many keys there are. `shows_hidden`: writes what the caller wants to see
/// before the rule.
template <class Real>
[[nodiscard]] index_t score_block(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                                  block const& area, stretches const& parts, key_rows<Real> key,
                                  bool shows_hidden = false) {
  const index_t lanes = tile.vectors * run.verb.lanes;
  const index_t lead = mod_pow2(area.key_begin, run.verb.keys_per_line());
  const index_t end = lead + area.key_end - area.key_begin;
  const index_t keys = run.whole_words(end);
  fill(work.scores, lead * lanes, -infinity<Real>);
  fill(work.scores + end * lanes, (keys - end) * lanes, -infinity<Real>);
  // Several stretches, of which some may leave out vectors, each go on from the maxima of those before.
  const bool is_whole =
      parts.count == 1 && parts.items[0].seen == cover::full && !run.rule.adjusts() && !run.caps() && !shows_hidden;
  Real* const row_max = is_whole ? tile.row_max : work.block_max;
  for (index_t lane = 0; !is_whole && lane < lanes; ++lane) row_max[lane] = tile.row_max[lane];
  if (run.rule.dense_stages() > 0) {
    load_terms(run, area, work.row_begin, work.row_end, work.packed_terms, work.term_step, work.terms, *work.ahead);
  }
  if (shows_hidden) show_before_rule(run, work, tile, area, key, work.scores + lead * lanes);
  for (int i = 0; i < parts.count; ++i) {
    const index_t first = parts.items[i].key_begin - area.key_begin;
    score_stretch(run, work, tile, area, parts.items[i], {key.at(first), key.stride}, shows_hidden, row_max,
                  work.scores + (lead + first) * lanes);
  }
  return keys;
}

/// out = out * rescale + probabilities times values, leaving out what no row of a vector sees. `keys` are in
/// work.scores; words that they leave over in the last row of V count nothing. How a block is cut shows in no bit: its
/// sums are complete before they are added.
template <class Real>
void accumulate_block(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real>& tile, block const& area,
                      stretches const& parts, index_t keys, key_rows<Real> value) {
  const index_t lanes = tile.vectors * run.verb.lanes;
  const index_t step = run.verb.keys_per_line();
  const int elements = run.verb.elements_per_word;
  const index_t words_end = div_pow2(run.whole_lines(keys), elements);
  for (index_t lane = div_pow2(keys, elements) * lanes; lane < words_end * lanes; ++lane) work.scores[lane] = Real(0);
  const index_t base = div_pow2(area.key_begin, step);
  const auto add = [&](stretch const& part, Real const* start, Real* out, Real const* rescale) {
    const index_t first = div_pow2(part.key_begin, step) - base;
    const index_t rows = part.seen == cover::none ? 0 : ceil_div_pow2(part.key_end, step) - base - first;
    const index_t words = rows * run.verb.words_per_line;
    const index_t skipped = part.first_vector * run.verb.lanes;
    const int vectors = part.end_vector - part.first_vector;
    run.verb.accumulate[vectors - 1](
        work.scores + first * run.verb.words_per_line * lanes + skipped, value.at(first), value.stride, rows,
        run.call.head_dim_v, lanes, start == nullptr ? nullptr : start + skipped, out + skipped, rescale,
        work.ahead->take(words * run.verb.register_tiles(run.verb.steps(run.call.head_dim_v), vectors)));
  };
  // The first stretch takes in all vectors, and what lies behind it too if that may be seen by all.
  stretch whole = parts.items[0];
  whole.first_vector = 0;
  whole.end_vector = tile.vectors;
  int next = 1;
  for (; next < parts.count && whole.seen != cover::none; ++next) {
    stretch const& part = parts.items[next];
    if (part.seen == cover::none || part.end_vector - part.first_vector < tile.vectors) break;
    whole.key_end = part.key_end;
  }
  const bool is_cut = next < parts.count;
  Real const* const rescale = tile.is_fresh ? nullptr : work.rescale;
  Real* sums = tile.is_fresh || !is_cut ? tile.out : work.spare;
  tile.is_fresh = false;
  add(whole, nullptr, sums, is_cut ? nullptr : rescale);
  for (; next < parts.count; ++next) {
    stretch const& part = parts.items[next];
    if (part.seen == cover::none) continue;
    const bool is_last = next + 1 == parts.count && part.end_vector - part.first_vector == tile.vectors;
    Real* const to = is_last ? tile.out : sums;
    add(part, sums, to, is_last ? rescale : nullptr);
    sums = to;
  }
  whole.seen = cover::none;
  if (sums != tile.out) add(whole, sums, tile.out, rescale);
}

/// Dropout of the probabilities of one stretch; the words of work.scores are those of the keys of `area`.
template <class Real>
void drop_stretch(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile, block const& area,
                  stretch const& part) {
  const index_t lanes = tile.vectors * run.verb.lanes, skipped = part.first_vector * run.verb.lanes;
  block rows = area;
  rows.key_begin = part.key_begin;
  rows.key_end = part.key_end;
  rows.query_begin += skipped;
  run.verb.drop(work.scores + (part.key_begin - area.key_begin) * lanes + skipped, lanes,
                part.end_vector - part.first_vector, rows, run.call.options.drop);
}

/// The same for a whole block.
template <class Real>
void drop_block(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile, block const& area) {
  if (run.call.drops()) {
    drop_stretch(run, work, tile, area, {area.key_begin, area.key_end, cover::full, 0, tile.vectors});
  }
}

/// Calls `visit` with how a block is cut: not at all where a rule leaves it whole.
template <class Real, class Visit>
void with_stretches(kernel<Real> const& run, query_tile<Real> const& tile, block const& area, cover seen,
                    Visit const& visit) {
  if (seen == cover::partial) {
    const stretch_list list = stretches_of(run.rule, area, tile.vectors, run.verb.lanes, run.verb.keys_per_line());
    return visit(stretches{list.items, list.count});
  }
  const stretch whole{area.key_begin, area.key_end, seen, 0, tile.vectors};
  visit(stretches{&whole, 1});
}

/// Skip, score, apply the rule, softmax, drop, accumulate: one pass over the keys for all tiles of a piece of work,
/// which also writes the scores that the caller wants to see, and those that will become weights.
template <class Real>
void attend_tiles(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                  index_t kv_head, query_tile<Real>* tiles, int tile_count) {
  const bool shows_hidden = run.call.scores.show_hidden();
  walk_keys(run, work, seq, batch, kv_head, tiles, tile_count, shows_hidden,
            [&](query_tile<Real>& tile, block const& area, cover seen, key_rows<Real> key, key_rows<Real> value) {
              with_stretches(run, tile, area, seen, [&](stretches const& parts) {
                want_shown(run, work, tile, area);
                const index_t keys = score_block(run, work, tile, area, parts, key, shows_hidden);
                show_after_rule(run, work, tile, area, seen);
                if (seen == cover::none) return;
                run.verb.softmax[tile.vectors - 1](work.scores, keys, run.to_exponent, work.block_max, tile.row_max,
                                                   tile.row_sum, tile.exact_sum, work.rescale);
                for (int i = 0; run.call.drops() && i < parts.count; ++i) {
                  if (parts.items[i].seen != cover::none) drop_stretch(run, work, tile, area, parts.items[i]);
                }
                accumulate_block(run, work, tile, area, parts, keys, value);
              });
            });
}

template <class Real>
void keep_scores(kernel<Real> const& run, workspace<Real> const& work, query_tile<Real> const& tile,
                 index_t keys) noexcept {
  const index_t count = keys * tile.vectors * run.verb.lanes;
  for (index_t i = 0; i < count; ++i) work.spare[i] = work.scores[i];
}

/// The same for one tile from the start, never touching a value that a row may not see.
template <class Real>
void attend_visible(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                    index_t kv_head, query_tile<Real>& only) {
  walk_keys(run, work, seq, batch, kv_head, &only, 1, false,
            [&](query_tile<Real>& tile, block const& area, cover seen, key_rows<Real> key, key_rows<Real> value) {
              index_t keys = 0;
              with_stretches(run, tile, area, seen,
                             [&](stretches const& parts) { keys = score_block(run, work, tile, area, parts, key); });
              keep_scores(run, work, tile, keys);
              run.verb.softmax[tile.vectors - 1](work.scores, keys, run.to_exponent, work.block_max, tile.row_max,
                                                 tile.row_sum, tile.exact_sum, work.rescale);
              drop_block(run, work, tile, area);
              run.verb.accumulate_visible(work.scores, work.spare, value.first, value.stride,
                                          keys / run.verb.elements_per_word, run.call.head_dim_v, tile.vectors,
                                          tile.out, work.rescale);
            });
}

/// The probabilities of one tile, block by block, once row_max and factor are final:
/// `visit(area, keys in work.scores, value rows)`. `spare` then holds the scores they were made of.
template <class Real, class Visit>
void revisit_probabilities(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                           index_t kv_head, query_tile<Real>& only, Visit const& visit) {
  walk_keys(run, work, seq, batch, kv_head, &only, 1, false,
            [&](query_tile<Real>& tile, block const& area, cover seen, key_rows<Real> key, key_rows<Real> value) {
              index_t keys = 0;
              with_stretches(run, tile, area, seen,
                             [&](stretches const& parts) { keys = score_block(run, work, tile, area, parts, key); });
              keep_scores(run, work, tile, keys);
              run.verb.probabilities(work.scores, keys, tile.vectors, run.to_exponent, tile.row_max, tile.factor);
              visit(area, keys, value);
            });
}

/// out = sum of final probabilities times values: it stays within the values, as the sum before its division may not.
/// Rounded, the probabilities do not quite sum to what they should: row_sum becomes their sum, with what the rows began
/// with.
template <class Real>
void attend_again(kernel<Real> const& run, workspace<Real> const& work, sequence const& seq, index_t batch,
                  index_t kv_head, query_tile<Real>& tile) {
  const int step = run.verb.elements_per_word;
  const index_t lanes = tile.vectors * run.verb.lanes;
  Real* const sum = tile.row_sum;
  const row_start start = run.rule.start_of(tile.head);
  for (index_t lane = 0; step > 1 && lane < lanes; ++lane) {
    const double max = static_cast<double>(tile.row_max[lane]) * static_cast<double>(run.score_unit);
    const double begun = start.sum == 0 ? 0 : start.sum * __builtin_exp(start.max - max);
    sum[lane] = tile.factor[lane] * static_cast<Real>(begun);
  }
  revisit_probabilities(run, work, seq, batch, kv_head, tile,
                        [&](block const& area, index_t keys, key_rows<Real> value) {
                          drop_block(run, work, tile, area);
                          if (step > 1) {
                            run.verb.round_pairs(work.scores, keys, tile.vectors);
                            bfloat16 const* const rounded = reinterpret_cast<bfloat16 const*>(work.scores);
                            for (index_t i = 0; i < keys * lanes; ++i)
                              sum[i / 2 % lanes] += static_cast<Real>(rounded[i]);
                          }
                          run.verb.accumulate_visible(work.scores, work.spare, value.first, value.stride, keys / step,
                                                      run.call.head_dim_v, tile.vectors, tile.out, nullptr);
                        });
}

}  // namespace HEED_ABI
}  // namespace heed::detail
