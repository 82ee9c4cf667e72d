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

/// How a call is cut. A group is some query heads of one kv head, a tile up to three vectors of their rows, and a piece
/// of work some neighbouring tiles of a group. Nothing here shows in a result: it only chooses how many tiles use a
/// block of keys while it is in the cache, and who computes them.
struct partition {
  index_t heads_per_group = 1;
  index_t groups_per_kv_head = 1;
  index_t vectors = 0;          // of query rows
  index_t tiles = 0;            // of these, in a group
  index_t tiles_per_piece = 1;  // at most
  int threads = 1;
  placement key = placement::in_place;
  placement value = placement::in_place;
  index_t heads_per_wave = 0;  // kv heads that are computed before the next ones are begun, or packed
  bool packs_waves = false;    // what is packed_once, is so for the heads of a wave
};

/// One piece of work: some query heads of a kv head times some query rows.
struct work_part {
  index_t batch, kv_head, head_begin, head_end, row_begin, row_end;
};

/// The pieces of a wave in the order in which they are taken: the groups one after another, each from its last rows to
/// its first ones, which have the fewest keys under a causal mask. Threads that share the work come to the end of it
/// tile by tile, so that none waits long for another.
class piece_list {
 public:
  /// Of the kv heads [first_head, first_head + heads) of the batch.
  piece_list(problem const& call, partition const& cut, int lanes, index_t first_head, index_t heads) noexcept
      : call_(call), cut_(cut), lanes_(lanes), first_head_(first_head) {
    const index_t groups = heads * cut.groups_per_kv_head;
    const index_t tiles_alone = (cut.threads - 1) * cut.tiles_per_piece;
    const index_t tiles_before = greater(0, groups * cut.tiles - tiles_alone);
    pieces_per_group_ = ceil_div(cut.tiles, cut.tiles_per_piece);
    const quotient before = tiles_alone == 0 ? quotient{groups, 0} : divide(tiles_before, cut.tiles);
    const index_t whole_pieces = divide(before.rest, cut.tiles_per_piece).whole;
    pieces_ = before.whole * pieces_per_group_ + whole_pieces;
    first_alone_ = before.whole * cut.tiles + whole_pieces * cut.tiles_per_piece;
    count_ = pieces_ + groups * cut.tiles - first_alone_;
  }

  [[nodiscard]] index_t count() const noexcept { return count_; }

  [[nodiscard]] work_part operator[](index_t piece) const noexcept {
    const bool is_alone = piece >= pieces_;
    const quotient group =
        is_alone ? divide(first_alone_ + piece - pieces_, cut_.tiles) : divide(piece, pieces_per_group_);
    const index_t end = cut_.tiles - group.rest * (is_alone ? 1 : cut_.tiles_per_piece);
    const quotient head = divide(group.whole, cut_.groups_per_kv_head);
    const quotient batch = divide(first_head_ + head.whole, call_.num_kv_heads);
    work_part part{};
    part.batch = batch.whole;
    part.kv_head = batch.rest;
    part.head_begin = part.kv_head * call_.group_size + head.rest * cut_.heads_per_group;
    part.head_end = lesser(part.head_begin + cut_.heads_per_group, (part.kv_head + 1) * call_.group_size);
    part.row_begin = row_of(greater(0, end - (is_alone ? 1 : cut_.tiles_per_piece)));
    part.row_end = lesser(row_of(end), call_.seq_len_q);
    return part;
  }

 private:
  /// Tiles are of two vectors rather than one where they cannot all be of three. This is tile * vectors / tiles,
  /// without a product that 64 bits may not hold.
  [[nodiscard]] index_t row_of(index_t tile) const noexcept {
    return (3 * tile - ceil_div(tile * (3 * cut_.tiles - cut_.vectors), cut_.tiles)) * lanes_;
  }

  problem const& call_;
  partition const& cut_;
  int lanes_;
  index_t first_head_;
  index_t pieces_per_group_;
  index_t pieces_;       // of several tiles each
  index_t first_alone_;  // the first tile behind them
  index_t count_;
};

/// Calls `visit(first_head, pieces)` wave by wave.
template <class Visit>
void for_each_wave(problem const& call, partition const& cut, int lanes, Visit const& visit) {
  const index_t heads = call.batch_size * call.num_kv_heads;
  for (index_t first = 0; first < heads; first += cut.heads_per_wave) {
    visit(first, piece_list(call, cut, lanes, first, lesser(cut.heads_per_wave, heads - first)));
  }
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
  if (call.options.threads != 1 && *flops >= 2 * flops_per_thread) {
    const double repaid = *flops / flops_per_thread;
    const int wanted = call.options.threads == 0 ? workers_of(call, 0).available() : call.options.threads;
    cut.threads = repaid < wanted ? static_cast<int>(repaid) : wanted;
  }
  const index_t full_tile = 3 * run.verb.lanes;
  const index_t tile_bytes = full_tile * (call.head_dim_qk + call.head_dim_v + 3) * static_cast<index_t>(sizeof(Real));
  index_t tiles = div_pow2(rows_per_piece, run.verb.lanes) / 3;
  if (tiles * tile_bytes > tile_scratch_bytes) tiles = greater(1, tile_scratch_bytes / tile_bytes);
  if (call.weights.given()) {
    // Rows that are gone over once more while they are near, if one tile's are.
    const index_t near_tiles =
        near_weights_bytes / (full_tile * greater(1, call.seq_len_kv) * static_cast<index_t>(sizeof(Real)));
    if (near_tiles > 0) tiles = lesser(tiles, near_tiles);
  }
  cut.vectors = ceil_div_pow2(call.seq_len_q, run.verb.lanes);
  cut.tiles = ceil_div(cut.vectors, 3);
  cut.heads_per_group = lesser(call.group_size, tiles);
  cut.tiles_per_piece = cut.tiles * cut.heads_per_group <= tiles ? cut.tiles : greater(1, tiles / cut.heads_per_group);
  const index_t kv_heads = call.batch_size * call.num_kv_heads;
  const auto all_tiles = [&] { return kv_heads * ceil_div(call.group_size, cut.heads_per_group) * cut.tiles; };
  // Enough of them that no thread waits long for the last one.
  while (cut.threads > 1 && all_tiles() < index_t{2} * cut.threads && cut.heads_per_group > 1) {
    cut.heads_per_group = ceil_div(cut.heads_per_group, 2);
  }
  cut.threads = static_cast<int>(lesser(cut.threads, all_tiles()));
  if (cut.threads > 1) {
    cut.tiles_per_piece = greater(1, lesser(cut.tiles_per_piece, all_tiles() / (index_t{4} * cut.threads)));
  }
  cut.groups_per_kv_head = ceil_div(call.group_size, cut.heads_per_group);
  const index_t piece_rows = cut.heads_per_group * cut.tiles_per_piece * full_tile;
  cut.key = placement_of<Real>(run, call.key, piece_rows);
  cut.value = placement_of<Real>(run, call.value, piece_rows);
  const index_t words = packed_words<Real>(run, cut.key, cut.value);
  cut.packs_waves = words > 0;
  cut.heads_per_wave = kv_heads;
  if (cut.packs_waves) {
    // One thread goes head by head, while what it packed is near; several share a wave, so that few wait at its end.
    const index_t most = cut.threads == 1 ? 1 : packed_once_bytes / (words * static_cast<index_t>(sizeof(Real)));
    cut.heads_per_wave = greater(1, lesser(most, kv_heads));
  }
  return cut;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
