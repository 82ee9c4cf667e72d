// One piece of work: its query tiles, from packing the rows to writing out what they saw.
#pragma once

#include "heed/base/scratch.hpp"
#include "heed/cpu/partition.hpp"
#include "heed/cpu/tile_weights.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// One piece, with its tiles carved out of a thread's scratch.
template <class Real>
class piece {
 public:
  /// `next`: a piece that this thread will probably do afterwards; none from pieces.count() on.
  piece(kernel<Real> const& run, partition const& cut, piece_list const& pieces, index_t number, index_t next)
      : run_(run), cut_(cut), part_(pieces[number]), seq_(sequence_of(run.call, run.rule, part_.batch)) {
    if (next < pieces.count()) want(pieces[next]);
  }

  /// Bytes of scratch, for any piece of the call.
  [[nodiscard]] static std::size_t scratch_bytes(kernel<Real> const& run, partition const& cut) noexcept {
    carver count(nullptr);
    workspace<Real> work{};
    carve(run, cut, count, work);
    const index_t tiles = most_tiles(run, cut);
    for (index_t tile = tiles; tile > 0; --tile) {
      query_tile<Real> ignored{};
      carve(run, count, run.rule.has_borders() ? run.verb.lanes : 3 * run.verb.lanes, ignored);
    }
    return count.used() + static_cast<std::size_t>(tiles) * sizeof(query_tile<Real>) + 64;
  }

  /// `bytes`: scratch_bytes, which all pieces of a call share.
  void attend(std::size_t bytes) {
    const scratch memory(bytes);
    carver from(memory.data());
    carve(run_, cut_, from, work_);
    work_.ahead = &ahead_;
    work_.row_begin = part_.row_begin;
    work_.row_end = part_.row_end;
    tiles_ = from.template take<query_tile<Real>>(static_cast<std::size_t>(most_tiles(run_, cut_)));
    const index_t rows_there = lesser(part_.row_end, seq_.query_len);
    for (index_t head = part_.head_begin; head < part_.head_end; ++head) {
      const block rows{part_.batch, head,           part_.row_begin,
                       rows_there,  seq_.key_begin, greater(seq_.key_begin, seq_.key_end),
                       seq_.offset};
      cut_tiles(run_.rule, rows, run_.verb.lanes,
                [&](block const& area, int vectors) { open_tile(from, area, vectors); });
      // Rows of the piece that lie past the sequence's query length.
      for (index_t row = greater(part_.row_begin, rows_there); row < part_.row_end; ++row) {
        write_empty_row(run_.call, part_.batch, head, row);
      }
    }
    attend_tiles(run_, work_, seq_, part_.batch, part_.kv_head, tiles_, tile_count_);
    for (int tile = 0; tile < tile_count_; ++tile) {
      write_out(tiles_[tile]);
      if (run_.call.weights.given()) write_weights(run_, work_, seq_, part_.batch, part_.kv_head, tiles_[tile]);
      if (run_.call.scores.given()) write_unseen_scores(run_, seq_, part_.batch, tiles_[tile]);
    }
  }

 private:
  /// Asks for the rows of another piece, if its K and V are small enough to be near by then and lie together.
  void want(work_part const& part) noexcept {
    problem const& call = run_.call;
    for (operand const* box : {&call.query, &call.key, &call.value, &call.out}) {
      const bool by_query = box == &call.query || box == &call.out;
      const index_t begin = by_query ? part.row_begin : 0;
      const index_t rows = (by_query ? part.row_end : call.seq_len_kv) - begin;
      const index_t bytes = rows * box->extents[3] * element_size(box->kind);
      if (box->strides[2] != box->extents[3] || bytes > read_ahead_bytes) continue;
      ahead_.want(box->row(part.batch, by_query ? part.head_begin : part.kv_head, begin), bytes);
    }
  }

  /// Tiles that a rule cuts may be of one vector each, but no more vectors than most_vectors.
  [[nodiscard]] static index_t most_tiles(kernel<Real> const& run, partition const& cut) noexcept {
    return cut.heads_per_group * (run.rule.has_borders() ? most_vectors(3 * cut.tiles_per_piece) : cut.tiles_per_piece);
  }

  static void carve(kernel<Real> const& run, partition const& cut, carver& from, workspace<Real>& work) noexcept {
    const std::size_t lanes = static_cast<std::size_t>(3 * run.verb.lanes);
    const index_t block_keys = run.whole_lines(lesser(run.block_keys, run.call.seq_len_kv));
    const std::size_t keys = static_cast<std::size_t>(block_keys);
    const std::size_t longest =
        static_cast<std::size_t>(greater(block_keys, greater(run.query_words(), run.call.head_dim_v)));
    work.scores = from.template take<Real>(keys * lanes);
    work.spare = from.template take<Real>(longest * lanes);
    work.block_max = from.template take<Real>(lanes);
    work.hidden_max = from.template take<Real>(lanes);
    work.rescale = from.template take<Real>(lanes);
    const std::size_t stages = static_cast<std::size_t>(run.rule.dense_stages());
    work.terms = from.template take<term_rows<Real>>(stages);
    work.packed_terms = from.template take<Real>(stages * keys * lanes);
    work.term_step = block_keys * static_cast<index_t>(lanes);
    if (cut.key == placement::packed_by_piece) {
      work.key = from.template take<Real>(keys * static_cast<std::size_t>(run.query_words()));
    }
    if (cut.value == placement::packed_by_piece) {
      work.value = from.template take<Real>(
          static_cast<std::size_t>(div_pow2(block_keys, run.verb.keys_per_line()) * run.value_words()));
    }
  }

  static void carve(kernel<Real> const& run, carver& from, index_t lane_count, query_tile<Real>& tile) noexcept {
    const std::size_t lanes = static_cast<std::size_t>(lane_count);
    tile.query = from.template take<Real>(static_cast<std::size_t>(run.query_words()) * lanes);
    tile.out = from.template take<Real>(static_cast<std::size_t>(run.call.head_dim_v) * lanes);
    tile.row_max = from.template take<Real>(lanes);
    tile.row_sum = from.template take<Real>(lanes);
    const bool asks = run.call.lse.given() || run.call.weights.given();
    tile.exact_sum = run.verb.elements_per_word == 1 ? tile.row_sum : asks ? from.template take<Real>(lanes) : nullptr;
    tile.factor = from.template take<Real>(lanes);
  }

  /// Sets up the tile of the rows of a block.
  void open_tile(carver& from, block const& area, int vectors) {
    query_tile<Real>& tile = tiles_[tile_count_++];
    tile.head = area.head;
    tile.query_begin = area.query_begin;
    tile.vectors = vectors;
    tile.rows = area.query_end - area.query_begin;
    tile.keys = area.key_begin >= area.key_end   ? key_range{0, 0}
                : run_.call.scores.show_hidden() ? key_range{area.key_begin, area.key_end}
                                                 : run_.rule.visible_keys(area);
    carve(run_, from, vectors * run_.verb.lanes, tile);
    pack(run_.call.query, tile);
    clear(tile);
  }

  void pack(operand const& query, query_tile<Real> const& tile) noexcept {
    const int step = run_.verb.elements_per_word;
    void const* const first = query.row(part_.batch, tile.head, tile.query_begin);
    Real const* rows = static_cast<Real const*>(first);
    index_t row_stride = div_pow2(query.strides[2], step);
    if (!has_plain_rows<Real>(query, step, run_.verb.words_per_line)) {
      run_.verb.pack_rows(first, query.kind, query.strides[2], query.strides[3], tile.rows, query.extents[3],
                          work_.spare);
      rows = work_.spare;
      row_stride = run_.query_words();
    }
    run_.verb.pack_query(rows, row_stride, tile.rows, run_.query_words(), run_.scale, tile.vectors, tile.query);
  }

  /// The state of a tile that has seen no key.
  void clear(query_tile<Real>& tile) const noexcept {
    const index_t lanes = tile.vectors * run_.verb.lanes;
    tile.is_fresh = true;
    const row_start start = run_.rule.start_of(tile.head);
    const Real max = static_cast<Real>(start.max / static_cast<double>(run_.score_unit));
    fill(tile.row_max, lanes, max);
    fill(tile.row_sum, lanes, static_cast<Real>(start.sum));
    if (tile.exact_sum != nullptr && tile.exact_sum != tile.row_sum) {
      fill(tile.exact_sum, lanes, static_cast<Real>(start.sum));
    }
  }

  void clear_out(query_tile<Real>& tile) const noexcept {
    const index_t count = run_.call.head_dim_v * tile.vectors * run_.verb.lanes;
    for (index_t i = 0; i < count; ++i) tile.out[i] = Real(0);
    tile.is_fresh = false;
  }

  void write_out(query_tile<Real>& tile) {
    problem const& call = run_.call;
    if (tile.is_fresh) clear_out(tile);
    const bool divided = !finish(tile) && recover(tile);
    unpack(run_, run_.verb.unpack_out, work_, part_.batch, tile, tile.out, divided ? ones<Real>.lanes : tile.factor,
           call.out, 0, call.head_dim_v);
    if (!call.lse.given()) return;
    for (index_t row = 0; row < tile.rows; ++row) {
      const double sum = static_cast<double>(tile.exact_sum[row]);
      write_lse(call, part_.batch, tile.head, tile.query_begin + row,
                sum == 0 ? -infinity<double>
                         : static_cast<double>(tile.row_max[row]) * static_cast<double>(run_.score_unit) +
                               __builtin_log(sum));
    }
  }

  bool finish(query_tile<Real> const& tile) const noexcept {
    return run_.verb.finish(tile.out, run_.call.head_dim_v, tile.vectors, tile.row_sum, tile.factor);
  }

  [[nodiscard]] static bool is_finite(Real value) noexcept { return value - value == Real(0); }
  /// Without dropout a mean of finite values is finite, however it rounds.
  [[nodiscard]] Real mean_of(Real part_of_mean, Real times) const noexcept {
    constexpr Real most = sizeof(Real) == 4 ? Real(__FLT_MAX__) : Real(__DBL_MAX__);
    const Real mean = part_of_mean * times;
    if (run_.call.drops() || !is_finite(part_of_mean) || is_finite(mean)) return mean;
    return part_of_mean > Real(0) ? most : -most;
  }

  /// A power of 2 times which the terms of a mean stay within half of the values: half of everything, so that
  /// probabilities that round to a little over 1 in sum do not pass the largest value, and less where dropout grows
  /// them.
  [[nodiscard]] Real safe_part() const noexcept {
    const double survivors = 1 - run_.call.options.drop.p;
    double part = 0.5;
    while (survivors > 0 && part > 0.5 * survivors) part *= 0.5;
    return static_cast<Real>(part);
  }

  /// A tile holds an infinity or a NaN. First it is computed again without the values that a row may not see, for
  /// 0 * NaN is NaN. What is left may be a sum that overflowed before its division: the mean of such values is not
  /// infinite, and is computed as one. Returns whether out has been divided. What was finite keeps its bits.
  bool recover(query_tile<Real>& tile) {
    clear(tile);
    clear_out(tile);
    attend_visible(run_, work_, seq_, part_.batch, part_.kv_head, tile);
    if (finish(tile)) return false;
    const index_t lanes = tile.vectors * run_.verb.lanes;
    const index_t count = run_.call.head_dim_v * lanes;
    const scratch memory(static_cast<std::size_t>(count) * sizeof(Real));
    Real* const before = reinterpret_cast<Real*>(memory.data());
    for (index_t i = 0; i < count; ++i) {
      before[i] = tile.out[i];
      tile.out[i] = Real(0);
    }
    const Real part = safe_part(), whole = Real(1) / part;
    for (index_t lane = 0; lane < lanes; ++lane) tile.factor[lane] *= part;
    attend_again(run_, work_, seq_, part_.batch, part_.kv_head, tile);
    for (index_t lane = 0; lane < lanes; ++lane) tile.factor[lane] *= whole;
    const bool is_rounded = run_.verb.elements_per_word > 1;
    for (index_t i = 0; i < count; ++i) {
      const index_t row = run_.verb.row_of(i, lanes);
      const Real times = is_rounded ? Real(1) / tile.row_sum[row] : whole;
      tile.out[i] = is_finite(before[i]) ? before[i] * tile.factor[row] : mean_of(tile.out[i], times);
    }
    return true;
  }

  kernel<Real> const& run_;
  partition const& cut_;
  work_part part_;
  read_ahead ahead_{&run_};
  sequence seq_;
  workspace<Real> work_;
  query_tile<Real>* tiles_ = nullptr;
  int tile_count_ = 0;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
