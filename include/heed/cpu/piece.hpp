// One piece of work: its query tiles, from packing the rows to writing out what they saw.
#pragma once

#include "heed/base/scratch.hpp"
#include "heed/cpu/partition.hpp"
#include "heed/cpu/tile.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// One item, with its tiles carved out of a thread's scratch.
template <class Real>
class piece {
 public:
  piece(kernel<Real> const& run, partition const& cut, index_t item) : run_(run), cut_(cut) {
    problem const& call = run.call;
    // Late rows first: under a causal mask they have the most keys, and the light items are left for the end.
    const index_t row_chunk = cut.row_chunks - 1 - item % cut.row_chunks;
    const index_t head_chunk = item / cut.row_chunks % cut.head_chunks;
    kv_head_ = item / (cut.row_chunks * cut.head_chunks) % call.num_kv_heads;
    batch_ = item / (cut.row_chunks * cut.head_chunks * call.num_kv_heads);
    head_begin_ = kv_head_ * call.group_size + head_chunk * cut.heads_per_item;
    head_end_ = lesser(head_begin_ + cut.heads_per_item, (kv_head_ + 1) * call.group_size);
    row_begin_ = row_chunk * cut.rows_per_item;
    row_end_ = lesser(row_begin_ + cut.rows_per_item, call.seq_len_q);
    seq_ = sequence_of(call, run.rule, batch_);
  }

  /// Bytes of scratch, for any item of the call.
  [[nodiscard]] static std::size_t scratch_bytes(kernel<Real> const& run, partition const& cut) noexcept {
    carver count(nullptr);
    workspace<Real> work{};
    carve(run, cut, count, work);
    for (index_t tile = cut.tiles_per_item(run.verb.lanes); tile > 0; --tile) {
      query_tile<Real> ignored{};
      carve(run, count, 3 * run.verb.lanes, ignored);
    }
    return count.used() + static_cast<std::size_t>(cut.tiles_per_item(run.verb.lanes)) * sizeof(query_tile<Real>) + 64;
  }

  void attend() {
    scratch memory(scratch_bytes(run_, cut_));
    carver from(memory.data());
    carve(run_, cut_, from, work_);
    tiles_ = from.template take<query_tile<Real>>(static_cast<std::size_t>(cut_.tiles_per_item(run_.verb.lanes)));
    const index_t rows_there = lesser(row_end_, seq_.query_len);
    for (index_t head = head_begin_; head < head_end_; ++head) {
      for (index_t row = row_begin_; row < rows_there;) row += open_tile(from, head, row, rows_there - row);
      write_empty_rows(head, greater(row_begin_, rows_there));
    }
    attend_tiles(run_, work_, seq_, batch_, kv_head_, tiles_, tile_count_);
    for (int tile = 0; tile < tile_count_; ++tile) {
      write_out(tiles_[tile]);
      if (run_.call.weights.given()) write_weights(tiles_[tile]);
    }
  }

 private:
  static void carve(kernel<Real> const& run, partition const& cut, carver& from, workspace<Real>& work) noexcept {
    const std::size_t lanes = static_cast<std::size_t>(3 * run.verb.lanes);
    const std::size_t keys = static_cast<std::size_t>(lesser(run.block_keys, run.call.seq_len_kv));
    const std::size_t longest = static_cast<std::size_t>(
        greater(lesser(run.block_keys, run.call.seq_len_kv), greater(run.call.head_dim_qk, run.call.head_dim_v)));
    const index_t rows_served = cut.heads_per_item * cut.rows_per_item;
    work.scores = from.template take<Real>(keys * lanes);
    work.spare = from.template take<Real>(longest * lanes);
    work.block_max = from.template take<Real>(lanes);
    work.rescale = from.template take<Real>(lanes);
    work.ones = from.template take<Real>(lanes);
    if (packs<Real>(run.call.key, rows_served)) {
      work.key = from.template take<Real>(keys * static_cast<std::size_t>(run.call.head_dim_qk));
    }
    if (packs<Real>(run.call.value, rows_served)) {
      work.value = from.template take<Real>(keys * static_cast<std::size_t>(run.call.head_dim_v));
    }
    for (std::size_t lane = 0; work.ones != nullptr && lane < lanes; ++lane) work.ones[lane] = Real(1);
  }

  static void carve(kernel<Real> const& run, carver& from, index_t lane_count, query_tile<Real>& tile) noexcept {
    const std::size_t lanes = static_cast<std::size_t>(lane_count);
    tile.query = from.template take<Real>(static_cast<std::size_t>(run.call.head_dim_qk) * lanes);
    tile.out = from.template take<Real>(static_cast<std::size_t>(run.call.head_dim_v) * lanes);
    tile.row_max = from.template take<Real>(lanes);
    tile.row_sum = from.template take<Real>(lanes);
    tile.factor = from.template take<Real>(lanes);
  }

  /// Sets up the tile that begins at `row`; returns how many rows it takes.
  index_t open_tile(carver& from, index_t head, index_t row, index_t rows_left) noexcept {
    problem const& call = run_.call;
    query_tile<Real>& tile = tiles_[tile_count_++];
    tile.head = head;
    tile.query_begin = row;
    tile.vectors = vectors_for(rows_left, run_.verb.lanes);
    const index_t lanes = tile.vectors * run_.verb.lanes;
    tile.rows = lesser(rows_left, lanes);
    const block area{batch_,     head, row, row + tile.rows, seq_.key_begin, greater(seq_.key_begin, seq_.key_end),
                     seq_.offset};
    tile.keys = area.key_begin < area.key_end ? run_.rule.visible_keys(run_.rule.rule, area) : key_range{0, 0};
    carve(run_, from, lanes, tile);
    pack(call.query, tile);
    clear(tile);
    return tile.rows;
  }

  void pack(operand const& query, query_tile<Real> const& tile) noexcept {
    void const* const first = query.row(batch_, tile.head, tile.query_begin);
    Real const* rows = static_cast<Real const*>(first);
    index_t row_stride = query.strides[2];
    if (!has_plain_rows<Real>(query)) {
      run_.verb.pack_rows(first, query.kind, query.strides[2], query.strides[3], tile.rows, query.extents[3],
                          work_.spare);
      rows = work_.spare;
      row_stride = query.extents[3];
    }
    run_.verb.pack_query(rows, row_stride, tile.rows, query.extents[3], run_.scale, tile.vectors, tile.query);
  }

  /// Columns [column, column + columns) of the rows of `to`, out of a tile [columns, lanes].
  void unpack(query_tile<Real> const& tile, Real const* from, Real const* factor, operand const& to, index_t column,
              index_t columns) const noexcept {
    char* const corner = static_cast<char*>(to.row(batch_, tile.head, tile.query_begin)) +
                         column * to.strides[3] * element_size(to.kind);
    if (has_plain_rows<Real>(to)) {
      run_.verb.unpack_tile(from, factor, tile.vectors, tile.rows, columns, reinterpret_cast<Real*>(corner),
                            to.strides[2]);
      return;
    }
    run_.verb.unpack_tile(from, factor, tile.vectors, tile.rows, columns, work_.spare, columns);
    run_.verb.unpack_rows(work_.spare, tile.rows, columns, corner, to.kind, to.strides[2], to.strides[3]);
  }

  /// The state of a tile that has seen no key.
  void clear(query_tile<Real> const& tile) const noexcept {
    const index_t lanes = tile.vectors * run_.verb.lanes;
    for (index_t i = 0; i < run_.call.head_dim_v * lanes; ++i) tile.out[i] = Real(0);
    for (index_t lane = 0; lane < lanes; ++lane) {
      tile.row_max[lane] = -infinity<Real>;
      tile.row_sum[lane] = Real(0);
    }
  }

  void write_out(query_tile<Real> const& tile) {
    problem const& call = run_.call;
    const bool divided = !finish(tile) && recover(tile);
    unpack(tile, tile.out, divided ? work_.ones : tile.factor, call.out, 0, call.head_dim_v);
    if (!call.lse.given()) return;
    for (index_t row = 0; row < tile.rows; ++row) {
      const double sum = static_cast<double>(tile.row_sum[row]);
      write_lse(tile.head, tile.query_begin + row,
                sum == 0 ? -infinity<double> : static_cast<double>(tile.row_max[row]) + __builtin_log(sum));
    }
  }

  bool finish(query_tile<Real> const& tile) const noexcept {
    return run_.verb.finish(tile.out, run_.call.head_dim_v, tile.vectors, tile.row_sum, tile.factor);
  }

  [[nodiscard]] static bool is_finite(Real value) noexcept { return value - value == Real(0); }
  [[nodiscard]] static Real doubled(Real half_mean) noexcept {
    constexpr Real most = sizeof(Real) == 4 ? Real(__FLT_MAX__) : Real(__DBL_MAX__);
    if (!is_finite(half_mean) || is_finite(half_mean * Real(2))) return half_mean * Real(2);
    return half_mean > Real(0) ? most : -most;
  }

  /// A tile holds an infinity or a NaN. First it is computed again without the values that a row may not see, for
  /// 0 * NaN is NaN. What is left may be a sum that overflowed before its division: the mean of such values is not
  /// infinite, and is computed as one. Returns whether out has been divided. What was finite keeps its bits.
  bool recover(query_tile<Real> const& tile) {
    clear(tile);
    attend_visible(run_, work_, seq_, batch_, kv_head_, tile);
    if (finish(tile)) return false;
    const index_t lanes = tile.vectors * run_.verb.lanes;
    const index_t count = run_.call.head_dim_v * lanes;
    const scratch memory(static_cast<std::size_t>(count) * sizeof(Real));
    Real* const before = reinterpret_cast<Real*>(memory.data());
    for (index_t i = 0; i < count; ++i) {
      before[i] = tile.out[i];
      tile.out[i] = Real(0);
    }
    // Half of everything, so that probabilities that round to a little over 1 in sum do not pass the largest value.
    for (index_t lane = 0; lane < lanes; ++lane) tile.factor[lane] *= Real(0.5);
    attend_again(run_, work_, seq_, batch_, kv_head_, tile);
    for (index_t lane = 0; lane < lanes; ++lane) tile.factor[lane] *= Real(2);
    for (index_t i = 0; i < count; ++i) {
      tile.out[i] = is_finite(before[i]) ? before[i] * tile.factor[i % lanes] : doubled(tile.out[i]);
    }
    return true;
  }

  void write_weights(query_tile<Real> const& tile) {
    operand const& weights = run_.call.weights;
    index_t written = 0;  // keys
    revisit_probabilities(
        run_, work_, seq_, batch_, kv_head_, tile, [&](block const& area, Real const* probabilities, key_rows<Real>) {
          write_zero_weights(tile.head, tile.query_begin, tile.query_begin + tile.rows, written, area.key_begin);
          unpack(tile, probabilities, work_.ones, weights, area.key_begin, area.key_end - area.key_begin);
          written = area.key_end;
        });
    write_zero_weights(tile.head, tile.query_begin, tile.query_begin + tile.rows, written, run_.call.seq_len_kv);
  }

  void write_zero_weights(index_t head, index_t row_begin, index_t row_end, index_t key_begin, index_t key_end) const {
    operand const& weights = run_.call.weights;
    if (key_begin >= key_end) return;
    with_element(weights.kind, [&](auto element) {
      using element_type = decltype(element);
      for (index_t row = row_begin; row < row_end; ++row) {
        element_type* const line = static_cast<element_type*>(weights.row(batch_, head, row));
        for (index_t key = key_begin; key < key_end; ++key) line[key * weights.strides[3]] = element_type(0.0f);
      }
    });
  }

  void write_lse(index_t head, index_t row, double value) const {
    void* const place = run_.call.lse.row(batch_, head, row);
    if (run_.call.lse.kind == element_kind::float64) {
      *static_cast<double*>(place) = value;
    } else {
      *static_cast<float*>(place) = static_cast<float>(value);
    }
  }

  /// Rows of the item that lie past the sequence's query length.
  void write_empty_rows(index_t head, index_t row_begin) const {
    operand const& out = run_.call.out;
    for (index_t row = row_begin; row < row_end_; ++row) {
      with_element(out.kind, [&](auto element) {
        using element_type = decltype(element);
        element_type* const line = static_cast<element_type*>(out.row(batch_, head, row));
        for (index_t dim = 0; dim < out.extents[3]; ++dim) line[dim * out.strides[3]] = element_type(0.0f);
      });
      if (run_.call.lse.given()) write_lse(head, row, -infinity<double>);
    }
    if (run_.call.weights.given()) write_zero_weights(head, row_begin, row_end_, 0, run_.call.seq_len_kv);
  }

  kernel<Real> const& run_;
  partition const& cut_;
  index_t batch_, kv_head_, head_begin_, head_end_, row_begin_, row_end_;
  sequence seq_;
  workspace<Real> work_{};
  query_tile<Real>* tiles_ = nullptr;
  int tile_count_ = 0;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
