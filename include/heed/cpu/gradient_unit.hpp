// The gradients of one key-value head: all query tiles of its group, chunk by chunk of keys.
#pragma once

#include "heed/base/scratch.hpp"
#include "heed/cpu/gradient_tile.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

template <class Real>
class gradient_unit {
 public:
  gradient_unit(gradient_call<Real> const& all, index_t unit)
      : all_(all),
        run_(all.run),
        batch_(unit / all.run.call.num_kv_heads),
        kv_head_(unit % all.run.call.num_kv_heads),
        seq_(sequence_of(all.run.call, all.run.rule, batch_)) {}

  /// Bytes that tiles keep from chunk to chunk.
  [[nodiscard]] static std::size_t tile_bytes(gradient_call<Real> const& all) {
    problem const& call = all.run.call;
    if (call.batch_size == 0 || call.num_kv_heads == 0)
      return 0;  // there is no unit 0, nor a length to ask the rule for
    carver count(nullptr);
    gradient_unit(all, 0).carve_tiles(count, most_lanes(all), most_tiles(all));
    return count.used();
  }
  /// Bytes of a tile_order.
  [[nodiscard]] static std::size_t flag_bytes(gradient_call<Real> const& all, index_t chunks) noexcept {
    return static_cast<std::size_t>(most_tiles(all) * chunks);
  }
  /// Bytes that a chunk takes.
  [[nodiscard]] static std::size_t work_bytes(gradient_call<Real> const& all) noexcept {
    carver count(nullptr);
    gradient_work<Real> work{};
    carve(all, count, work);
    return count.used();
  }

  /// Cuts the rows of the group's heads into tiles, which live in `memory` of tile_bytes.
  void cut(char* memory) {
    carver from(memory);
    carve_tiles(from, most_lanes(all_), most_tiles(all_));
    Real* next = numbers_;
    double* next_slots = slots_;
    problem const& call = run_.call;
    for (index_t head = kv_head_ * call.group_size; head < (kv_head_ + 1) * call.group_size; ++head) {
      const block rows{batch_,     head, 0, seq_.query_len, seq_.key_begin, greater(seq_.key_begin, seq_.key_end),
                       seq_.offset};
      cut_tiles(run_.rule, rows, run_.verb.lanes, [&](block const& area, int vectors) {
        const index_t lanes = index_t{vectors} * run_.verb.lanes;
        gradient_tile<Real>& tile = tiles_[tile_count_++];
        tile.head = head;
        tile.query_begin = area.query_begin;
        tile.rows = area.query_end - area.query_begin;
        tile.vectors = vectors;
        tile.keys = area.key_begin >= area.key_end ? key_range{0, 0} : run_.rule.visible_keys(area);
        tile.lse = next;
        tile.delta = next + lanes;
        tile.query_gradient = next + 2 * lanes;
        next += (2 + call.head_dim_qk) * lanes;
        tile.slots = next_slots;
        next_slots += all_.slots_per_tile;
      });
    }
  }
  [[nodiscard]] index_t tile_count() const noexcept { return tile_count_; }

  /// What the tile's rows were in the forward pass, and gradients of 0.
  void open(index_t number, gradient_work<Real>& work) { open_tile(all_, work, batch_, tiles_[number]); }

  /// Whether any key of a chunk is visible to a tile.
  [[nodiscard]] bool meets(index_t number, index_t chunk) const {
    gradient_tile<Real> const& tile = tiles_[number];
    const index_t end = lesser((chunk + 1) * all_.chunk_keys, run_.call.seq_len_kv);
    for (index_t begin = chunk * all_.chunk_keys; begin < end; begin += run_.block_keys) {
      const block area = tile.part(seq_, batch_, begin, lesser(begin + run_.block_keys, end));
      if (area.key_begin < area.key_end && run_.rule.covers(area) != cover::none) return true;
    }
    return false;
  }

  /// All tiles see the keys of one chunk; its gradients of K and V are written. Late rows first: under a causal mask
  /// these are seen by all chunks, so that no chunk waits long for the one before it.
  void add_chunk(index_t chunk, gradient_work<Real>& work, tile_order const& order) {
    problem const& call = run_.call;
    const index_t begin = chunk * all_.chunk_keys;
    const index_t end = lesser(begin + all_.chunk_keys, call.seq_len_kv);
    chunk_rows<Real> keys = load_chunk(all_, work, seq_, batch_, kv_head_, begin, end);
    for (index_t number = tile_count_ - 1; number >= 0; --number) {
      gradient_tile<Real>& tile = tiles_[number];
      bool is_loaded = false, is_finite = keys.is_finite;
      for (index_t at = begin; at < end; at += run_.block_keys) {
        const block area = tile.part(seq_, batch_, at, lesser(at + run_.block_keys, end));
        if (area.key_begin >= area.key_end) continue;
        const cover seen = run_.rule.covers(area);
        if (seen == cover::none) continue;
        if (!is_loaded) is_finite = load_tile(all_, work, batch_, tile) && is_finite;
        is_loaded = true;
        differentiate_block(all_, work, tile, area, seen, keys, !is_finite, [&] { order.wait(number, chunk); });
      }
      if (is_loaded) order.finish(number, chunk);
    }
    write_key_gradients(all_, work, batch_, kv_head_, begin, end);
  }

  /// Writes the gradients of a tile's rows, once all chunks are through.
  void close(index_t number, gradient_work<Real>& work) { write_query_gradients(all_, work, batch_, tiles_[number]); }

  /// Once all tiles are: what the stages get from them, and the rows that see nothing.
  void finish() {
    problem const& call = run_.call;
    for (index_t number = 0; number < tile_count_; ++number) {
      gradient_tile<Real> const& tile = tiles_[number];
      for (index_t place = 0; place < all_.stage_count; ++place) {
        stage_gradient const& stage = all_.stages[place];
        if (!stage.wanted()) continue;
        add_slots<Real>(stage, batch_, tile.head, call.num_heads, tile.query_begin, tile.rows, tile.slots);
      }
      for (index_t place = 0; place < all_.sink_count; ++place) {
        all_.sink_totals[place * call.num_heads + tile.head] += tile.slots[place];
      }
    }
    if (!all_.want.dq.given()) return;
    for (index_t head = kv_head_ * call.group_size; head < (kv_head_ + 1) * call.group_size; ++head) {
      for (index_t row = seq_.query_len; row < call.seq_len_q; ++row) {
        fill_row(all_.want.dq, batch_, head, row, 0, call.head_dim_qk, 0.0f);
      }
    }
  }

  /// Room for the work of one thread.
  static void carve(gradient_call<Real> const& all, carver& from, gradient_work<Real>& to) noexcept {
    kernel<Real> const& run = all.run;
    const auto take = [&](index_t count) { return from.template take<Real>(static_cast<std::size_t>(count)); };
    problem const& call = run.call;
    const index_t lanes = 3 * index_t{run.verb.lanes};
    const index_t block_keys = lesser(run.block_keys, run.whole_lines(call.seq_len_kv));
    const index_t query_words = run.query_words(), value_words = run.words_of(call.head_dim_v);
    const index_t tile = block_keys * lanes;
    workspace<Real>& work = to.forward;
    work.scores = take(tile);
    const index_t longest = greater(block_keys + lanes, greater(all.query_columns, all.value_columns));
    work.spare = take(longest * lanes);
    work.block_max = take(lanes);
    work.hidden_max = take(lanes);
    work.rescale = take(lanes);
    work.before_rule = all.keeps_scores() ? take(tile) : nullptr;
    const index_t stages = run.rule.dense_stages();
    work.terms = from.template take<term_rows<Real>>(static_cast<std::size_t>(stages));
    work.packed_terms = take(stages * tile);
    work.term_step = tile;
    to.row_max = take(lanes);
    to.gradient = take(tile);
    to.seen_scores = take(tile);
    to.keep = all.drops() ? take(tile) : nullptr;
    to.stage_tiles = from.template take<Real*>(static_cast<std::size_t>(all.stage_count));
    to.stage_numbers = all.bends() ? take(all.stage_count * tile) : nullptr;
    to.query = take(lanes * all.query_columns);
    to.query_tile = take(lanes * query_words);
    to.d_out = take(lanes * all.value_columns);
    to.d_out_tile = take(lanes * value_words);
    to.out = take(lanes * all.value_columns);
    to.key_gradients = take(all.chunk_keys * all.query_columns);
    to.value_gradients = take(all.chunk_keys * all.value_columns);
    to.key = all.packs_key ? take(all.chunk_keys * query_words) : nullptr;
    to.value = all.packs_value ? take(all.chunk_keys * value_words) : nullptr;
    if (!all.multiplies_pairs()) return;
    to.key_lines = take(all.chunk_keys / run.verb.keys_per_line() * call.head_dim_qk * run.verb.words_per_line);
    to.row_words = take(tile / run.verb.elements_per_word);
  }

 private:
  /// Lanes of all tiles of a unit, and tiles, at most.
  [[nodiscard]] static index_t most_lanes(gradient_call<Real> const& all) noexcept {
    problem const& call = all.run.call;
    const index_t lanes = all.run.verb.lanes;
    return call.group_size * lanes *
           (all.run.rule.has_borders() ? most_vectors(ceil_div(call.seq_len_q, lanes))
                                       : ceil_div(call.seq_len_q, lanes));
  }
  [[nodiscard]] static index_t most_tiles(gradient_call<Real> const& all) noexcept {
    problem const& call = all.run.call;
    const index_t vectors = ceil_div(call.seq_len_q, all.run.verb.lanes);
    return call.group_size * (all.run.rule.has_borders() ? most_vectors(vectors) : ceil_div(vectors, 3));
  }

  void carve_tiles(carver& from, index_t lanes, index_t tiles) noexcept {
    tiles_ = from.template take<gradient_tile<Real>>(static_cast<std::size_t>(tiles));
    numbers_ = from.template take<Real>(static_cast<std::size_t>((2 + run_.call.head_dim_qk) * lanes));
    slots_ = from.template take<double>(static_cast<std::size_t>(all_.slots_per_tile * tiles));
  }

  gradient_call<Real> const& all_;
  kernel<Real> const& run_;
  index_t batch_, kv_head_;
  sequence seq_;
  gradient_tile<Real>* tiles_ = nullptr;
  index_t tile_count_ = 0;
  Real* numbers_ = nullptr;
  double* slots_ = nullptr;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
