// How a call is cut into pieces of work.
#pragma once

#include "heed/base/workers.hpp"
#include "heed/cpu/packing.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Lengths and offset of one sequence of the batch.
[[nodiscard]] inline sequence sequence_of(problem const& call, rule_view const& rule, index_t batch) {
  sequence seq{call.seq_len_q, 0, call.seq_len_kv, 0};
  rule.narrow(batch, seq);
  seq.offset = call.options.anchor.offset(batch, seq.query_len, seq.key_end);
  return seq;
}

/// The threads that a call asks for, at most `threads` of them.
[[nodiscard]] inline workers workers_of(problem const& call, int threads) noexcept {
  return {call.options.executor, threads, call.environment};
}

/// How a call is cut: one item is some query heads of one key-value head times some query rows. Nothing here shows in a
/// result: it only chooses how many tiles use a block of keys while it is in the cache, and who computes them.
struct partition {
  index_t heads_per_item = 1;
  index_t rows_per_item = 1;
  index_t head_chunks = 1;
  index_t row_chunks = 1;
  int threads = 1;
  placement key = placement::in_place;
  placement value = placement::in_place;
  index_t heads_per_wave = 0;  // kv heads whose K or V are packed at a time; 0: none are packed once

  [[nodiscard]] index_t items(problem const& call) const noexcept {
    return call.batch_size * call.num_kv_heads * head_chunks * row_chunks;
  }
  [[nodiscard]] index_t tiles_per_item(index_t lanes) const noexcept {
    return heads_per_item * ceil_div(rows_per_item, 3 * lanes);  // four vectors become two tiles as well
  }
};

/// One item: some query heads of a kv head times some query rows.
struct work_part {
  index_t batch, kv_head, head_begin, head_end, row_begin, row_end;
};

[[nodiscard]] inline work_part part_of(problem const& call, partition const& cut, index_t item) noexcept {
  work_part part{};
  // Late rows first: under a causal mask they have the most keys, and the light items are left for the end.
  part.row_begin = (cut.row_chunks - 1 - item % cut.row_chunks) * cut.rows_per_item;
  part.row_end = lesser(part.row_begin + cut.rows_per_item, call.seq_len_q);
  item /= cut.row_chunks;
  const index_t head_chunk = item % cut.head_chunks;
  item /= cut.head_chunks;
  part.kv_head = item % call.num_kv_heads;
  part.batch = item / call.num_kv_heads;
  part.head_begin = part.kv_head * call.group_size + head_chunk * cut.heads_per_item;
  part.head_end = lesser(part.head_begin + cut.heads_per_item, (part.kv_head + 1) * call.group_size);
  return part;
}

template <class Real>
[[nodiscard]] partition partition_of(kernel<Real> const& run, double* flops) {
  problem const& call = run.call;
  rule_view const& rule = run.rule;
  *flops = 0;
  if (call.nothing_to_do()) return {};
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    const sequence seq = sequence_of(call, rule, batch);
    const block whole{batch, 0, 0, seq.query_len, seq.key_begin, greater(seq.key_begin, seq.key_end), seq.offset};
    if (whole.query_end == 0 || whole.key_begin >= whole.key_end) continue;
    // The keys that the middle row may see stand for those of all.
    block middle = whole;
    middle.query_begin = whole.query_end / 2;
    middle.query_end = middle.query_begin + 1;
    const key_range keys = rule.visible_keys(middle);
    *flops += 2.0 * static_cast<double>(call.num_heads) * static_cast<double>(seq.query_len) *
              static_cast<double>(greater(keys.end - keys.begin, 0)) *
              static_cast<double>(call.head_dim_qk + call.head_dim_v);
  }
  partition cut;
  const double repaid = *flops / flops_per_thread;
  if (call.options.threads != 1 && repaid >= 2) {
    const int wanted = call.options.threads == 0 ? workers_of(call, 0).available() : call.options.threads;
    cut.threads = repaid < wanted ? static_cast<int>(repaid) : wanted;
  }
  const index_t full_tile = 3 * run.verb.lanes;
  const index_t tile_bytes = full_tile * (call.head_dim_qk + call.head_dim_v + 3) * static_cast<index_t>(sizeof(Real));
  index_t tiles = greater(1, lesser(rows_per_item / full_tile, tile_scratch_bytes / tile_bytes));
  if (call.weights.given()) {
    // Rows that are gone over once more while they are near, if one tile's are.
    const index_t near_tiles =
        near_weights_bytes / (full_tile * greater(1, call.seq_len_kv) * static_cast<index_t>(sizeof(Real)));
    if (near_tiles > 0) tiles = lesser(tiles, near_tiles);
  }
  cut.heads_per_item = lesser(call.group_size, tiles);
  cut.rows_per_item = lesser(ceil_div(call.seq_len_q, full_tile), greater(1, tiles / cut.heads_per_item)) * full_tile;
  const auto count_chunks = [&] {
    cut.head_chunks = ceil_div(call.group_size, cut.heads_per_item);
    cut.row_chunks = ceil_div(call.seq_len_q, cut.rows_per_item);
  };
  count_chunks();
  // Enough items that no thread waits long for the last one.
  while (cut.threads > 1 && cut.items(call) < index_t{4} * cut.threads && cut.rows_per_item > full_tile) {
    cut.rows_per_item = ceil_div(cut.rows_per_item / 2, full_tile) * full_tile;
    count_chunks();
  }
  while (cut.threads > 1 && cut.items(call) < index_t{2} * cut.threads && cut.heads_per_item > 1) {
    cut.heads_per_item = ceil_div(cut.heads_per_item, 2);
    count_chunks();
  }
  if (cut.items(call) < cut.threads) cut.threads = static_cast<int>(cut.items(call));
  const index_t rows_per_piece = cut.heads_per_item * cut.rows_per_item;
  cut.key = placement_of<Real>(run, call.key, rows_per_piece);
  cut.value = placement_of<Real>(run, call.value, rows_per_piece);
  const index_t words = packed_words<Real>(run, cut.key, cut.value);
  if (words > 0) {
    // One thread goes head by head, while what it packed is near; several share a wave, so that few wait at its end.
    cut.heads_per_wave = cut.threads == 1 ? 1 : packed_once_bytes / (words * static_cast<index_t>(sizeof(Real)));
    cut.heads_per_wave = greater(1, lesser(cut.heads_per_wave, call.batch_size * call.num_kv_heads));
  }
  return cut;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
