// A dry run of the forward pass: the same tiles and the same questions to the masks, but no element is read.
#pragma once

#include <string>
#include <vector>

#include "heed/cpu/explain_rules.hpp"
#include "heed/cpu/forward.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct block_counts {
  index_t skipped = 0;
  index_t full = 0;
  index_t partial = 0;
  double masked = 0;  // scores that masks look at one by one
  double staged = 0;  // scores that stages change, where there are any
  double scores = 0;  // scores computed, and attended
  double shown = 0;   // scores computed where they are to be seen before masks hide them
};

/// Counts a block that a tile sees in part or whole.
template <class Real>
void count_scores(kernel<Real> const& run, query_tile<Real> const& tile, block const& part, cover seen, bool few,
                  block_counts& counts) {
  const bool shows_hidden = run.call.scores.show_hidden();
  const auto count = [&](double rows, double rows_ruled, double keys, cover there) {
    counts.scores += rows * keys;
    if (there == cover::partial) counts.masked += rows_ruled * keys;
    if (run.rule.adjusts()) counts.staged += rows_ruled * keys;
  };
  const double rows = static_cast<double>(tile.rows), keys = static_cast<double>(part.key_end - part.key_begin);
  if (few) return count(rows, rows, keys, seen);
  // What is shown is computed for whole tiles; masks then hide what would not have been.
  const auto ruled = [&](cover there) { return shows_hidden && !run.rule.adjusts() ? cover::partial : there; };
  if (seen == cover::full) return count(rows, rows, keys, ruled(seen));
  const stretch_list cut_up = stretches_of(run.rule, part, tile.vectors, run.verb.lanes, run.verb.keys_per_line());
  for (int i = 0; i < cut_up.count; ++i) {
    stretch const& some = cut_up.items[i];
    if (some.seen == cover::none) continue;
    const index_t first = some.first_vector * run.verb.lanes;
    const double some_rows = static_cast<double>(lesser(tile.rows, some.end_vector * run.verb.lanes) - first);
    count(some_rows, shows_hidden ? rows : some_rows, static_cast<double>(some.key_end - some.key_begin),
          ruled(some.seen));
  }
}

/// The blocks of one tile: `block_keys` keys each.
template <class Real>
void count_tile(kernel<Real> const& run, sequence const& seq, block const& area, int vectors, bool few,
                block_counts& counts, std::vector<rule_note>& notes) {
  problem const& call = run.call;
  const bool shows_hidden = call.scores.show_hidden();
  query_tile<Real> tile{};
  tile.head = area.head;
  tile.query_begin = area.query_begin;
  tile.vectors = vectors;
  tile.rows = area.query_end - area.query_begin;
  if (area.key_begin < area.key_end) {
    tile.keys = shows_hidden ? key_range{area.key_begin, area.key_end} : run.rule.visible_keys(area);
    counts.shown += static_cast<double>(tile.rows) * static_cast<double>(area.key_end - area.key_begin);
  }
  for (index_t begin = 0; begin < call.seq_len_kv; begin += run.block_keys) {
    const block part = visible_block(tile, seq, area.batch, begin, begin + run.block_keys);
    const cover seen = part.key_begin < part.key_end ? run.rule.covers(part) : cover::none;
    counts.skipped += seen == cover::none;
    counts.full += seen == cover::full;
    counts.partial += seen == cover::partial;
    if (seen != cover::none) count_scores(run, tile, part, seen, few, counts);
  }
  for (rule_note& note : notes) note.ask(area, run.block_keys, call.seq_len_q, call.seq_len_kv, shows_hidden);
}

/// The blocks of rows [row_begin, row_end) of one head; few rows are one tile.
template <class Real>
void count_rows(kernel<Real> const& run, index_t batch, index_t head, index_t row_begin, index_t row_end, bool few,
                block_counts& counts, std::vector<rule_note>& notes) {
  const sequence seq = sequence_of(run.call, run.rule, batch);
  const block rows{batch, head, row_begin, lesser(row_end, seq.query_len), seq.key_begin, seq.key_end, seq.offset};
  if (rows.query_begin >= rows.query_end) return;
  if (few) return count_tile(run, seq, rows, 1, few, counts, notes);
  cut_tiles(run.rule, rows, run.verb.lanes,
            [&](block const& area, int vectors) { count_tile(run, seq, area, vectors, few, counts, notes); });
}

/// The blocks of all rows, head by head.
template <class Real>
void count_heads(kernel<Real> const& run, bool few, block_counts& counts, std::vector<rule_note>& notes) {
  for (index_t batch = 0; batch < run.call.batch_size; ++batch) {
    for (index_t head = 0; head < run.call.num_heads; ++head) {
      count_rows(run, batch, head, 0, run.call.seq_len_q, few, counts, notes);
    }
  }
}

/// The same piece of work by piece of work: a tile ends where its piece does.
template <class Real>
void count_pieces(kernel<Real> const& run, partition const& cut, block_counts& counts, std::vector<rule_note>& notes) {
  for_each_wave(run.call, cut, run.verb.lanes, [&](index_t, piece_list const& pieces) {
    for (index_t number = 0; number < pieces.count(); ++number) {
      const work_part part = pieces[number];
      for (index_t head = part.head_begin; head < part.head_end; ++head) {
        count_rows(run, part.batch, head, part.row_begin, part.row_end, false, counts, notes);
      }
    }
  });
}

/// What options.drop says.
struct dropout_text {
  char text[96] = "off";

  explicit dropout_text(problem const& call) noexcept {
    if (!call.drops()) return;
    dropout const& drop = call.options.drop;
    std::snprintf(text, sizeof text, "p %g, seed %llu, offset %llu", drop.p, static_cast<unsigned long long>(drop.seed),
                  static_cast<unsigned long long>(drop.offset));
  }
};

/// What multiplies bfloat16.
template <class Real>
[[nodiscard]] char const* bf16_dot_text(verbs<Real> const& verb) noexcept {
  return verb.words_per_line > 1 ? "on (amx)" : verb.elements_per_word > 1 ? "on" : "off";
}

/// What the verbs of products multiply, if not numbers of the accumulate type.
template <class Real>
[[nodiscard]] char const* words_text(verbs<Real> const& verb) noexcept {
  return verb.words_per_line > 1 ? " (bf16 tiles)" : verb.elements_per_word > 1 ? " (bf16 pairs)" : "";
}

/// The verbs that look at scores, in their order, and what else rules and weights take.
template <class Real>
[[nodiscard]] std::string verbs_that_run(kernel<Real> const& run, block_counts const& all, bool few, bool merges) {
  problem const& call = run.call;
  const bool computes = all.scores > 0 || (call.scores.show_hidden() && all.shown > 0), attends = all.scores > 0;
  bool begins = false, packs_terms = false;
  for (index_t head = 0; head < call.num_heads; ++head) begins = begins || run.rule.start_of(head).sum != 0;
  for (int stage = 0; stage < run.rule.dense_stages(); ++stage) {
    packs_terms = packs_terms || !terms_in_place<Real>(run.rule.terms(stage));
  }
  std::string text;
  const auto add = [&](bool runs, char const* name, char const* what = "") {
    if (runs) text.append(text.empty() ? "" : ", ").append(name).append(what);
  };
  char const* const words = words_text(run.verb);
  const bool has_weights = call.weights.given() && attends, hold_scores = weights_hold_scores<Real>(call);
  add(computes, few ? "dot_rows" : "scores", words);
  add(computes && run.caps(), "cap_scores");
  add(attends && packs_terms, "pack_terms");
  add(all.masked + all.staged > 0, "rule");
  add(attends, few ? "softmax_rows" : "softmax");
  add(attends && call.drops(), "drop");
  add(attends, few ? "add_rows" : "accumulate", words);
  add(few && ((attends && merges) || begins), "merge_rows");
  add(has_weights && hold_scores, "weigh_rows");
  add(has_weights && !hold_scores && !few, "probabilities");
  return text.empty() ? "none" : text;
}

template <class Real>
[[nodiscard]] std::string explain(problem const& call, rule_view const& rule, std::vector<rule_note>& notes,
                                  verbs<Real> const& verb, row_verbs<Real> const* few) {
  const kernel<Real> run = kernel_of<Real>(call, rule, {}, verb);
  double estimate = 0;
  const partition cut = partition_of(run, &estimate);
  const decode_cut splits = few != nullptr ? decode_cut_of(run, *few) : decode_cut{};
  block_counts all;
  if (few != nullptr) {
    count_heads(run, true, all, notes);
  } else if (!call.nothing_to_do()) {
    count_pieces(run, cut, all, notes);
  }
  const bool shows_hidden = call.scores.show_hidden(), hold_scores = weights_hold_scores<Real>(call);
  // Tiles are shown the scores that they attend; few rows compute them once more.
  double scores = shows_hidden ? all.shown + (few != nullptr ? all.scores : 0) : all.scores;
  if (call.weights.given() && !hold_scores) scores += all.scores;
  const double flops =
      2.0 * (scores * static_cast<double>(call.head_dim_qk) + all.scores * static_cast<double>(call.head_dim_v));
  double bytes = 0;
  const auto count_bytes = [&](operand const& box) {
    if (!box.given()) return;
    double size = static_cast<double>(element_size(box.kind));
    for (index_t extent : box.extents) size *= static_cast<double>(extent);
    bytes += size;
  };
  for (operand const* box : {&call.query, &call.key, &call.value, &call.out, &call.lse, &call.weights}) {
    count_bytes(*box);
  }
  for (score_output const& one : call.scores) count_bytes(one.to);
  const auto how = [&](operand const& box, placement place) {
    if (place == placement::in_place) return std::string("in place");
    std::string text(place == placement::packed_once ? "packed once" : "packed by each piece of work");
    if (run.verb.elements_per_word > 1) return text.append(" in pairs");
    if (box.kind != (sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64)) {
      text.append(" from ")
          .append(element_name(box.kind))
          .append(box.kind == element_kind::float64 ? " (rounded)" : "");
    }
    return text;
  };
  const bool idle = call.nothing_to_do();
  placement key = cut.key, value = cut.value;
  const int threads = few != nullptr ? splits.threads : cut.threads;
  std::size_t scratch =
      piece<Real>::scratch_bytes(run, cut) * static_cast<std::size_t>(cut.threads) +
      static_cast<std::size_t>(cut.heads_per_wave * packed_words(run, cut.key, cut.value)) * sizeof(Real);
  if (few != nullptr && !idle) {
    few_rows<Real> unit(run, *few, 0);
    key = unit.key_in_place() ? placement::in_place : placement::packed_by_piece;
    value = unit.value_in_place() ? placement::in_place : placement::packed_by_piece;
    scratch = unit.scratch_bytes() * static_cast<std::size_t>(threads) + held_bytes(run, *few, splits);
  }
  char const* const whose = call.options.executor.given() && threads > 1 ? " (executor)" : "";
  char text[1024];
  std::snprintf(text, sizeof text,
                "isa: %s\n"
                "tile: %s%lld queries x %lld keys\n"
                "accumulate: %s\n"
                "blocks: skipped %lld, full %lld, partial %lld\n"
                "elements evaluated: %.0f\n"
                "key: %s\n"
                "value: %s\n"
                "bf16_dot: %s\n"
                "threads: %d%s\n"
                "splits: %lld\n"
                "weights: %s\n"
                "scores:%s%s%s%s\n"
                "dropout: %s\n"
                "flops: %.0f\n"
                "bytes: %.0f\n"
                "scratch: %llu\n",
                isa_name(current_isa().level), few != nullptr ? "decode, " : "",
                static_cast<long long>(few != nullptr ? few_rows<Real>::heads_together(call) * call.seq_len_q
                                                      : run.verb.most_rows()),
                static_cast<long long>(run.block_keys), sizeof(Real) == 4 ? "float32" : "float64",
                static_cast<long long>(all.skipped), static_cast<long long>(all.full),
                static_cast<long long>(all.partial), rule.adjusts() ? all.staged : all.masked,
                how(call.key, key).c_str(), how(call.value, value).c_str(), bf16_dot_text(run.verb), idle ? 0 : threads,
                whose, static_cast<long long>(idle ? 1 : splits.splits),
                !call.weights.given() ? "none"
                : hold_scores         ? "in one pass"
                                      : "in a second pass",
                call.scores.has(score_stage::raw) ? " raw" : "", call.scores.has(score_stage::capped) ? " capped" : "",
                call.scores.has(score_stage::biased) ? " biased" : "", call.scores.given() ? "" : " none",
                dropout_text(call).text, flops, bytes, static_cast<unsigned long long>(idle ? 0 : scratch));
  std::string lines(text);
  for (rule_note const& note : notes) note.append_to(lines, all.masked, all.staged);
  return lines.append("verbs: ")
      .append(idle ? "none" : verbs_that_run(run, all, few != nullptr, splits.splits > 1))
      .append("\n");
}

}  // namespace HEED_ABI
}  // namespace heed::detail
