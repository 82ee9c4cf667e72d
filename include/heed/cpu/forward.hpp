// The forward pass on the CPU: splits a call into pieces of work and runs each through the tiles.
#pragma once

#include "heed/base/fp_environment.hpp"
#include "heed/base/scratch.hpp"
#include "heed/base/thread_pool.hpp"
#include "heed/cpu/tile.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Lengths and offset of one sequence of the batch.
[[nodiscard]] inline sequence sequence_of(problem const& call, rule_view const& rule, index_t batch) noexcept {
  sequence seq{call.seq_len_q, 0, call.seq_len_kv, 0};
  rule.narrow(rule.rule, batch, seq);
  seq.offset = call.options.anchor.offset(batch, seq.query_len, seq.key_end);
  return seq;
}

/// How a call is cut: one item is some query heads of one key-value head times some query rows. Nothing here shows in a
/// result: it only chooses how many tiles use a block of keys while it is in the cache, and who computes them.
struct partition {
  index_t heads_per_item = 1;
  index_t rows_per_item = 1;
  index_t head_chunks = 1;
  index_t row_chunks = 1;
  int threads = 1;

  [[nodiscard]] index_t items(problem const& call) const noexcept {
    return call.batch_size * call.num_kv_heads * head_chunks * row_chunks;
  }
  [[nodiscard]] index_t tiles_per_item(index_t lanes) const noexcept {
    return heads_per_item * (ceil_div(rows_per_item, 3 * lanes) + 1);
  }
};

template <class T>
[[nodiscard]] partition partition_of(problem const& call, rule_view const& rule, index_t lanes, double* flops) {
  *flops = 0;
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    const sequence seq = sequence_of(call, rule, batch);
    const block whole{batch, 0, 0, seq.query_len, seq.key_begin, greater(seq.key_begin, seq.key_end), seq.offset};
    if (whole.query_end == 0 || whole.key_begin >= whole.key_end) continue;
    // The keys that the middle row may see stand for those of all.
    block middle = whole;
    middle.query_begin = whole.query_end / 2;
    middle.query_end = middle.query_begin + 1;
    const key_range keys = rule.visible_keys(rule.rule, middle);
    *flops += 2.0 * static_cast<double>(call.num_heads) * static_cast<double>(seq.query_len) *
              static_cast<double>(greater(keys.end - keys.begin, 0)) *
              static_cast<double>(call.head_dim_qk + call.head_dim_v);
  }
  partition cut;
  const double repaid = *flops / flops_per_thread;
  if (call.options.threads != 1 && repaid >= 2) {
    const int wanted = call.options.threads == 0 ? available_processors() : call.options.threads;
    cut.threads = repaid < wanted ? static_cast<int>(repaid) : wanted;
  }
  const index_t full_tile = 3 * lanes;
  const index_t tile_bytes = full_tile * (call.head_dim_qk + call.head_dim_v + 3) * static_cast<index_t>(sizeof(T));
  const index_t tiles = greater(1, lesser(rows_per_item / full_tile, tile_scratch_bytes / tile_bytes));
  cut.heads_per_item = lesser(call.group_size, tiles);
  cut.rows_per_item = lesser(ceil_div(call.seq_len_q, full_tile), greater(1, tiles / cut.heads_per_item)) * full_tile;
  const auto count_chunks = [&] {
    cut.head_chunks = ceil_div(call.group_size, cut.heads_per_item);
    cut.row_chunks = ceil_div(call.seq_len_q, cut.rows_per_item);
  };
  count_chunks();
  // Enough items that no thread waits long for the last one.
  while (cut.threads > 1 && cut.items(call) < 4 * cut.threads && cut.rows_per_item > full_tile) {
    cut.rows_per_item = ceil_div(cut.rows_per_item / 2, full_tile) * full_tile;
    count_chunks();
  }
  while (cut.threads > 1 && cut.items(call) < 2 * cut.threads && cut.heads_per_item > 1) {
    cut.heads_per_item = ceil_div(cut.heads_per_item, 2);
    count_chunks();
  }
  if (cut.items(call) < cut.threads) cut.threads = static_cast<int>(cut.items(call));
  return cut;
}

/// One item, with its tiles carved out of a thread's scratch.
template <class T>
class piece {
 public:
  piece(kernel<T> const& run, partition const& cut, index_t item) : run_(run), cut_(cut) {
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
  [[nodiscard]] static std::size_t scratch_bytes(kernel<T> const& run, partition const& cut) noexcept {
    carver count(nullptr);
    workspace<T> work{};
    carve(run, cut, count, work);
    for (index_t tile = cut.tiles_per_item(run.verb.lanes); tile > 0; --tile) {
      query_tile<T> ignored{};
      carve(run, count, 3 * run.verb.lanes, ignored);
    }
    return count.used() + static_cast<std::size_t>(cut.tiles_per_item(run.verb.lanes)) * sizeof(query_tile<T>) + 64;
  }

  void attend() {
    scratch memory(scratch_bytes(run_, cut_));
    carver from(memory.data());
    carve(run_, cut_, from, work_);
    tiles_ = from.template take<query_tile<T>>(static_cast<std::size_t>(cut_.tiles_per_item(run_.verb.lanes)));
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
  static void carve(kernel<T> const& run, partition const& cut, carver& from, workspace<T>& work) noexcept {
    const std::size_t lanes = static_cast<std::size_t>(3 * run.verb.lanes);
    const std::size_t keys = static_cast<std::size_t>(lesser(run.block_keys, run.call.seq_len_kv));
    const index_t rows_served = cut.heads_per_item * cut.rows_per_item;
    work.scores = from.template take<T>(keys * lanes);
    work.block_max = from.template take<T>(lanes);
    work.rescale = from.template take<T>(lanes);
    work.ones = from.template take<T>(lanes);
    if (packs<T>(run.call.key, rows_served)) {
      work.key = from.template take<T>(keys * static_cast<std::size_t>(run.call.head_dim_qk));
    }
    if (packs<T>(run.call.value, rows_served)) {
      work.value = from.template take<T>(keys * static_cast<std::size_t>(run.call.head_dim_v));
    }
    for (std::size_t lane = 0; work.ones != nullptr && lane < lanes; ++lane) work.ones[lane] = T(1);
  }

  static void carve(kernel<T> const& run, carver& from, index_t lane_count, query_tile<T>& tile) noexcept {
    const std::size_t lanes = static_cast<std::size_t>(lane_count);
    tile.query = from.template take<T>(static_cast<std::size_t>(run.call.head_dim_qk) * lanes);
    tile.out = from.template take<T>(static_cast<std::size_t>(run.call.head_dim_v) * lanes);
    tile.row_max = from.template take<T>(lanes);
    tile.row_sum = from.template take<T>(lanes);
    tile.factor = from.template take<T>(lanes);
  }

  /// Sets up the tile that begins at `row`; returns how many rows it takes.
  index_t open_tile(carver& from, index_t head, index_t row, index_t rows_left) noexcept {
    problem const& call = run_.call;
    query_tile<T>& tile = tiles_[tile_count_++];
    tile.head = head;
    tile.query_begin = row;
    tile.vectors = vectors_for(rows_left, run_.verb.lanes);
    const index_t lanes = tile.vectors * run_.verb.lanes;
    tile.rows = lesser(rows_left, lanes);
    const block area{batch_,     head, row, row + tile.rows, seq_.key_begin, greater(seq_.key_begin, seq_.key_end),
                     seq_.offset};
    tile.keys = area.key_begin < area.key_end ? run_.rule.visible_keys(run_.rule.rule, area) : key_range{0, 0};
    carve(run_, from, lanes, tile);
    run_.verb.pack_query(call.query.row(batch_, head, row), call.query.kind, call.query.strides[2],
                         call.query.strides[3], tile.rows, call.head_dim_qk, run_.scale, lanes, tile.query);
    clear_out(tile);
    for (index_t lane = 0; lane < lanes; ++lane) {
      tile.row_max[lane] = -infinity<T>;
      tile.row_sum[lane] = T(0);
    }
    return tile.rows;
  }

  void clear_out(query_tile<T> const& tile) const noexcept {
    const index_t count = run_.call.head_dim_v * tile.vectors * run_.verb.lanes;
    for (index_t i = 0; i < count; ++i) tile.out[i] = T(0);
  }

  void write_out(query_tile<T> const& tile) {
    problem const& call = run_.call;
    T const* factor = tile.factor;
    if (!run_.verb.finish(tile.out, call.head_dim_v, tile.vectors, tile.row_sum, tile.factor)) {
      recompute_selecting(tile);
      factor = work_.ones;
    }
    run_.verb.unpack(tile.out, factor, tile.vectors * run_.verb.lanes, tile.rows, call.head_dim_v,
                     call.out.row(batch_, tile.head, tile.query_begin), call.out.kind, call.out.strides[2],
                     call.out.strides[3]);
    if (!call.lse.given()) return;
    for (index_t row = 0; row < tile.rows; ++row) {
      write_lse(tile.head, tile.query_begin + row,
                tile.row_sum[row] == T(0)
                    ? -infinity<double>
                    : static_cast<double>(tile.row_max[row]) + __builtin_log(static_cast<double>(tile.row_sum[row])));
    }
  }

  /// The tile holds an infinity or a NaN, perhaps out of a value that some of its rows may not see (0 * NaN is NaN), or
  /// a sum that overflowed before it was divided. Once more then, with final probabilities and lane by lane.
  void recompute_selecting(query_tile<T> const& tile) {
    clear_out(tile);
    revisit_tiles(run_, work_, seq_, batch_, kv_head_, &tile, 1, T(-1),
                  [&](query_tile<T> const&, block const& area, T const* probabilities, key_rows<T> value) {
                    run_.verb.accumulate_visible(probabilities, value.first, value.stride,
                                                 area.key_end - area.key_begin, run_.call.head_dim_v, tile.vectors,
                                                 tile.out);
                  });
  }

  void write_weights(query_tile<T> const& tile) {
    operand const& weights = run_.call.weights;
    index_t written = 0;  // keys
    revisit_tiles(
        run_, work_, seq_, batch_, kv_head_, &tile, 1, T(0),
        [&](query_tile<T> const&, block const& area, T const* probabilities, key_rows<T>) {
          write_zero_weights(tile.head, tile.query_begin, tile.query_begin + tile.rows, written, area.key_begin);
          char* const corner = static_cast<char*>(weights.row(batch_, tile.head, tile.query_begin)) +
                               area.key_begin * weights.strides[3] * element_size(weights.kind);
          run_.verb.unpack(probabilities, work_.ones, tile.vectors * run_.verb.lanes, tile.rows,
                           area.key_end - area.key_begin, corner, weights.kind, weights.strides[2], weights.strides[3]);
          written = area.key_end;
        });
    write_zero_weights(tile.head, tile.query_begin, tile.query_begin + tile.rows, written, run_.call.seq_len_kv);
  }

  void write_zero_weights(index_t head, index_t row_begin, index_t row_end, index_t key_begin, index_t key_end) const {
    operand const& weights = run_.call.weights;
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

  kernel<T> const& run_;
  partition const& cut_;
  index_t batch_, kv_head_, head_begin_, head_end_, row_begin_, row_end_;
  sequence seq_;
  workspace<T> work_{};
  query_tile<T>* tiles_ = nullptr;
  int tile_count_ = 0;
};

template <class T>
[[nodiscard]] kernel<T> kernel_of(problem const& call, rule_view const& rule, rule_verb<T> apply) noexcept {
  const double scale = call.options.scale.has_value() ? *call.options.scale
                                                      : 1.0 / __builtin_sqrt(static_cast<double>(call.head_dim_qk));
  return {call,
          verbs_of<T>(current_isa().level),
          rule,
          apply,
          static_cast<T>(scale),
          keys_per_block(call.head_dim_qk, call.head_dim_v, static_cast<index_t>(sizeof(T)))};
}

/// Runs a checked call. T is the accumulate type.
template <class T>
void forward(problem const& call, rule_view const& rule, rule_verb<T> apply) {
  if (call.nothing_to_do()) return;
  const fp_environment environment;
  const kernel<T> run = kernel_of(call, rule, apply);
  double flops = 0;
  const partition cut = partition_of<T>(call, rule, run.verb.lanes, &flops);
  parallel_for(cut.items(call), cut.threads, [&](index_t item) {
    const fp_environment worker_environment;
    piece<T>(run, cut, item).attend();
  });
}

}  // namespace HEED_ABI
}  // namespace heed::detail
