// A dry run of the forward pass: the same tiles and the same questions to the masks, but no element is read.
#pragma once

#include <string>

#include "heed/cpu/forward.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct block_counts {
  index_t skipped = 0;
  index_t full = 0;
  index_t partial = 0;
  double elements = 0;  // scores that a rule looks at one by one
  double scores = 0;    // scores computed, and attended
  double shown = 0;     // scores computed where they are to be seen before masks hide them
};

/// Blocks are `block_keys` keys of one tile of query rows; few rows of a head are one tile.
template <class Real>
[[nodiscard]] block_counts count_blocks(kernel<Real> const& run, partition const& cut, sequence const& seq,
                                        index_t batch, bool few) {
  problem const& call = run.call;
  const bool shows_hidden = call.scores.show_hidden();
  block_counts counts;
  for (index_t head = 0; head < call.num_heads; ++head) {
    const auto count_tile = [&](block const& area, int vectors) {
      query_tile<Real> tile{};
      tile.head = head;
      tile.query_begin = area.query_begin;
      tile.vectors = vectors;
      tile.rows = area.query_end - area.query_begin;
      if (area.key_begin < area.key_end) {
        tile.keys = shows_hidden ? key_range{area.key_begin, area.key_end} : run.rule.visible_keys(area);
        counts.shown += static_cast<double>(tile.rows) * static_cast<double>(area.key_end - area.key_begin);
      }
      for (index_t begin = 0; begin < call.seq_len_kv; begin += run.block_keys) {
        const block part = visible_block(tile, seq, batch, begin, begin + run.block_keys);
        const cover seen = part.key_begin < part.key_end ? run.rule.covers(part) : cover::none;
        counts.skipped += seen == cover::none;
        counts.full += seen == cover::full;
        counts.partial += seen == cover::partial;
        const double size =
            static_cast<double>(tile.rows) * static_cast<double>(greater(part.key_end - part.key_begin, 0));
        if (seen == cover::full || (few && seen == cover::partial)) counts.scores += size;
        if (few ? seen == cover::partial : seen == cover::full && shows_hidden) counts.elements += size;
        if (few || seen != cover::partial) continue;
        const stretch_list cut_up =
            stretches_of(run.rule, part, tile.vectors, run.verb.lanes, run.verb.keys_per_line());
        for (int i = 0; i < cut_up.count; ++i) {
          stretch const& some = cut_up.items[i];
          if (some.seen == cover::none) continue;
          const index_t first = some.first_vector * run.verb.lanes;
          const index_t rows = lesser(tile.rows, some.end_vector * run.verb.lanes) - first;
          const double keys = static_cast<double>(some.key_end - some.key_begin);
          const double scores = static_cast<double>(rows) * keys;
          if (shows_hidden) counts.elements += static_cast<double>(tile.rows) * keys;
          if (!shows_hidden && some.seen == cover::partial) counts.elements += scores;
          counts.scores += scores;
        }
      }
    };
    block rows{batch, head, 0, seq.query_len, seq.key_begin, seq.key_end, seq.offset};
    if (few && seq.query_len > 0) count_tile(rows, 1);
    // A tile ends where its piece of work does.
    for (index_t begin = 0; !few && begin < seq.query_len; begin += cut.rows_per_item) {
      rows.query_begin = begin;
      rows.query_end = lesser(begin + cut.rows_per_item, seq.query_len);
      cut_tiles(run.rule, rows, run.verb.lanes, count_tile);
    }
  }
  return counts;
}

template <class Real>
[[nodiscard]] std::string explain(problem const& call, rule_view const& rule, verbs<Real> const& verb,
                                  row_verbs<Real> const* row_verb) {
  row_verbs<Real> const* const few = decodes(call, row_verb) ? row_verb : nullptr;
  const kernel<Real> run = kernel_of<Real>(call, rule, nullptr, few != nullptr ? verbs_of<Real, false>(false) : verb);
  double estimate = 0;
  const partition cut = partition_of(run, &estimate);
  const decode_cut splits = few != nullptr ? decode_cut_of(run, *few) : decode_cut{};
  block_counts all;
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    const block_counts one = count_blocks(run, cut, sequence_of(call, rule, batch), batch, few != nullptr);
    all = {all.skipped + one.skipped,   all.full + one.full,     all.partial + one.partial,
           all.elements + one.elements, all.scores + one.scores, all.shown + one.shown};
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
    const few_rows<Real> unit(run, *few, 0);
    key = unit.key_in_place() ? placement::in_place : placement::packed_by_piece;
    value = unit.value_in_place() ? placement::in_place : placement::packed_by_piece;
    scratch =
        few_rows<Real>::scratch_bytes(run, *few) * static_cast<std::size_t>(threads) + held_bytes(run, *few, splits);
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
                "flops: %.0f\n"
                "bytes: %.0f\n"
                "scratch: %llu\n",
                isa_name(current_isa().level), few != nullptr ? "decode, " : "",
                static_cast<long long>(few != nullptr ? few_rows<Real>::heads_together(call) * call.seq_len_q
                                                      : 3 * run.verb.lanes),
                static_cast<long long>(run.block_keys), sizeof(Real) == 4 ? "float32" : "float64",
                static_cast<long long>(all.skipped), static_cast<long long>(all.full),
                static_cast<long long>(all.partial), all.elements, how(call.key, key).c_str(),
                how(call.value, value).c_str(),
                run.verb.words_per_line > 1      ? "on (amx)"
                : run.verb.elements_per_word > 1 ? "on"
                                                 : "off",
                idle ? 0 : threads, whose, static_cast<long long>(idle ? 1 : splits.splits),
                !call.weights.given() ? "none"
                : hold_scores         ? "in one pass"
                                      : "in a second pass",
                call.scores.has(score_stage::raw) ? " raw" : "", call.scores.has(score_stage::capped) ? " capped" : "",
                call.scores.has(score_stage::biased) ? " biased" : "", call.scores.given() ? "" : " none", flops, bytes,
                static_cast<unsigned long long>(idle ? 0 : scratch));
  return text;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
