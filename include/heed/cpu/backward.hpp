// The backward pass on the CPU: what runs, in which order, on how many threads.
#pragma once

#include "heed/cpu/forward.hpp"
#include "heed/cpu/gradient_unit.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// How a backward call is cut: units are kv heads of the batch. Nothing here shows in a result.
struct gradient_cut {
  index_t chunk_keys = 1;
  index_t chunks = 0;
  int threads = 1;
  bool splits_units = false;  // threads share a unit, chunk by chunk; otherwise each has units of its own
  index_t waves = 1;          // units that add to the same numbers take turns
  index_t batch_per_wave = 1, heads_per_wave = 1;
};

/// Units whose stages' gradients are the same numbers may not run side by side.
template <class Real>
void cut_waves(gradient_call<Real> const& all, gradient_cut& cut) noexcept {
  problem const& call = all.run.call;
  bool shares_batch = all.sink_count > 0, shares_heads = false;
  for (index_t number = 0; number < all.stage_count; ++number) {
    stage_gradient const& stage = all.stages[number];
    if (!stage.wanted()) continue;
    shares_batch = shares_batch || stage.kind != stage_kind::bias || stage.to.extents[0] == 1;
    shares_heads = shares_heads || (stage.kind == stage_kind::bias && stage.to.extents[1] == 1);
  }
  cut.batch_per_wave = shares_batch ? 1 : call.batch_size;
  cut.heads_per_wave = shares_heads ? 1 : call.num_kv_heads;
  cut.waves = call.batch_size * call.num_kv_heads / greater(1, cut.batch_per_wave * cut.heads_per_wave);
}

/// Units take turns head by head of a batch item, or item by item of a head.
template <class Real>
[[nodiscard]] index_t unit_of(gradient_call<Real> const& all, gradient_cut const& cut, index_t wave,
                              index_t place) noexcept {
  problem const& call = all.run.call;
  const index_t head_waves = call.num_kv_heads / cut.heads_per_wave;
  const index_t batch = wave / head_waves * cut.batch_per_wave + place / cut.heads_per_wave;
  const index_t head = wave % head_waves * cut.heads_per_wave + place % cut.heads_per_wave;
  return batch * call.num_kv_heads + head;
}

template <class Real>
[[nodiscard]] gradient_cut cut_of(gradient_call<Real> const& all) {
  problem const& call = all.run.call;
  gradient_cut cut;
  double flops = 0;
  cut.threads = partition_of(all.run, &flops).threads;
  // K, V and their gradients of a chunk stay in the second-level cache, if that leaves enough of them to repay packing
  // Q and d_out for each.
  const index_t row_bytes = 2 * (all.query_columns + all.value_columns) * static_cast<index_t>(sizeof(Real));
  const index_t blocks = greater(2, chunk_bytes / (row_bytes * all.run.block_keys));
  cut.chunk_keys = blocks * all.run.block_keys;
  cut_waves(all, cut);
  const index_t units = cut.batch_per_wave * cut.heads_per_wave;
  if (cut.threads > 1 && units < 2 * cut.threads) {
    cut.splits_units = true;
    // Enough chunks that no thread waits long for the last one.
    while (cut.chunk_keys > all.run.block_keys && ceil_div(call.seq_len_kv, cut.chunk_keys) < 4 * cut.threads) {
      cut.chunk_keys = ceil_div(cut.chunk_keys / 2, all.run.block_keys) * all.run.block_keys;
    }
  }
  cut.chunk_keys =
      lesser(cut.chunk_keys, ceil_div(greater(1, call.seq_len_kv), all.run.block_keys) * all.run.block_keys);
  cut.chunks = ceil_div(call.seq_len_kv, cut.chunk_keys);
  const index_t items = cut.splits_units ? cut.chunks : units;
  if (items < cut.threads) cut.threads = static_cast<int>(greater(1, items));
  return cut;
}

/// The work of one thread, in its scratch.
template <class Real>
struct gradient_worker {
  scratch memory;
  read_ahead ahead;
  gradient_work<Real> work{};

  explicit gradient_worker(gradient_call<Real> const& all)
      : memory(gradient_unit<Real>::work_bytes(all)), ahead(&all.run) {
    carver from(memory.data());
    gradient_unit<Real>::carve(all, from, work);
    work.forward.ahead = &ahead;
    work.forward.row_begin = 0;
    work.forward.row_end = all.run.call.seq_len_q;
    for (index_t lane = 0; lane < 3 * index_t{all.run.verb.lanes}; ++lane) work.row_max[lane] = -infinity<Real>;
  }
};

/// One unit by one thread.
template <class Real>
void differentiate_unit(gradient_call<Real> const& all, gradient_cut const& cut, index_t unit_number) {
  gradient_worker<Real> mine(all);
  const scratch memory(gradient_unit<Real>::tile_bytes(all), scratch_use::shared);
  gradient_unit<Real> unit(all, unit_number);
  unit.cut(memory.data());
  const tile_order order(nullptr, cut.chunks, nullptr);
  for (index_t tile = 0; tile < unit.tile_count(); ++tile) unit.open(tile, mine.work);
  for (index_t chunk = 0; chunk < cut.chunks; ++chunk) unit.add_chunk(chunk, mine.work, order);
  for (index_t tile = 0; tile < unit.tile_count(); ++tile) unit.close(tile, mine.work);
  unit.finish();
}

/// One unit by several threads, which take its chunks in their order.
template <class Real>
void differentiate_unit_together(gradient_call<Real> const& all, gradient_cut const& cut, index_t unit_number) {
  const workers who = workers_of(all.run.call, cut.threads);
  const std::size_t tile_bytes = gradient_unit<Real>::tile_bytes(all);
  gradient_unit<Real> unit(all, unit_number);
  const scratch memory(tile_bytes + gradient_unit<Real>::flag_bytes(all, cut.chunks), scratch_use::shared);
  unit.cut(memory.data());
  int failed = 0;
  const tile_order order(reinterpret_cast<unsigned char*>(memory.data() + tile_bytes), cut.chunks, &failed);
  const index_t step = 8;  // tiles at a time
  const auto for_tiles = [&](auto const& visit) {
    parallel_for(ceil_div(unit.tile_count(), step), who, [&](index_t item) {
      gradient_worker<Real> mine(all);
      const index_t end = lesser((item + 1) * step, unit.tile_count());
      for (index_t tile = item * step; tile < end; ++tile) visit(tile, mine.work);
    });
  };
  for_tiles([&](index_t tile, gradient_work<Real>& work) {
    unit.open(tile, work);
    for (index_t chunk = 0; chunk < cut.chunks; ++chunk) order.begin(tile, chunk, unit.meets(tile, chunk));
  });
  const auto add_chunk = [&](index_t chunk) {
    tile_order::scope scope(order);
    gradient_worker<Real> mine(all);
    unit.add_chunk(chunk, mine.work, order);
    scope.complete();
  };
  parallel_for(cut.chunks, who, add_chunk, dealing::in_order);
  for_tiles([&](index_t tile, gradient_work<Real>& work) { unit.close(tile, work); });
  unit.finish();
}

/// Where the stages and sinks of a call are summed; what has no memory of its own with the caller.
template <class Real>
class stage_sums {
 public:
  explicit stage_sums(gradient_call<Real>& all) : all_(all) {
    carver count(nullptr);
    place(count);
    if (count.used() > 0) memory_ = static_cast<char*>(::operator new (count.used(), std::align_val_t{64}));
    carver from(memory_);
    place(from);
  }
  ~stage_sums() {
    if (memory_ != nullptr) ::operator delete (memory_, std::align_val_t{64});
  }
  stage_sums(stage_sums const&) = delete;
  stage_sums& operator=(stage_sums const&) = delete;

  /// Sums of nothing. What the rule's functor throws comes back.
  void clear() {
    const index_t heads = all_.run.call.num_heads;
    for (index_t number = 0; number < all_.stage_count; ++number) {
      stage_gradient& stage = all_.stages[number];
      if (!stage.wanted()) continue;
      for (index_t i = 0; stage.kind != stage_kind::bias && i < stage.slots * heads; ++i) stage.totals[i] = 0;
      if (stage.kind == stage_kind::bias && !(stage.is_own && sees_all())) clear_bias(stage);
    }
    for (index_t i = 0; i < all_.sink_count * heads; ++i) all_.sink_totals[i] = 0;
  }

  /// To the caller's elements.
  void write() const noexcept {
    const index_t heads = all_.run.call.num_heads;
    for (index_t number = 0; number < all_.stage_count; ++number) {
      stage_gradient const& stage = all_.stages[number];
      if (!stage.wanted() || stage.in_place) continue;
      if (stage.kind == stage_kind::bias) {
        write_sums(stage.to, static_cast<Real const*>(stage.sums), stage.strides);
      } else {
        write_sums(stage.to, stage.totals, {0, 0, heads, 1});
      }
    }
    for (index_t number = 0; number < all_.want.sinks.size(); ++number) {
      if (!all_.want.sinks[number].given()) continue;
      write_sums(all_.want.sinks[number], all_.sink_totals + number * heads, {0, 0, heads, 1});
    }
  }

 private:
  void place(carver& from) noexcept {
    const index_t heads = all_.run.call.num_heads;
    constexpr element_kind own = sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64;
    for (index_t number = 0; number < all_.stage_count; ++number) {
      stage_gradient& stage = all_.stages[number];
      if (!stage.wanted()) continue;
      if (stage.kind != stage_kind::bias) {
        stage.totals = from.template take<double>(static_cast<std::size_t>(stage.slots * heads));
        continue;
      }
      stage.in_place = stage.to.kind == own;
      index_t count = 1;
      for (int axis = 3; axis >= 0; --axis) {
        stage.strides[axis] = stage.to.extents[axis] == 1 ? 0 : stage.in_place ? stage.to.strides[axis] : count;
        count *= stage.to.extents[axis];
      }
      stage.sums = stage.in_place ? stage.to.data : from.template take<Real>(static_cast<std::size_t>(count));
      problem const& call = all_.run.call;
      stage.is_own = stage.is_dense() && (stage.to.extents[0] != 1 || call.batch_size == 1) &&
                     (stage.to.extents[1] != 1 || call.num_heads == 1);
    }
    all_.sink_totals = from.template take<double>(static_cast<std::size_t>(all_.sink_count * heads));
  }

  static void clear_bias(stage_gradient const& stage) noexcept {
    for (index_t batch = 0; batch < stage.to.extents[0]; ++batch) {
      for (index_t head = 0; head < stage.to.extents[1]; ++head) {
        for (index_t row = 0; row < stage.to.extents[2]; ++row) {
          Real* const line = stage.at<Real>(batch, head, row, 0);
          for (index_t key = 0; key < stage.to.extents[3]; ++key) line[key * stage.strides[3]] = Real(0);
        }
      }
    }
  }

  /// Whether no score is hidden.
  [[nodiscard]] bool sees_all() const {
    problem const& call = all_.run.call;
    for (index_t batch = 0; batch < call.batch_size; ++batch) {
      const sequence seq = sequence_of(call, all_.run.rule, batch);
      if (seq.query_len != call.seq_len_q || seq.key_begin != 0 || seq.key_end != call.seq_len_kv) return false;
      for (index_t head = 0; head < call.num_heads; ++head) {
        if (all_.run.rule.covers({batch, head, 0, seq.query_len, 0, seq.key_end, seq.offset}) != cover::full) {
          return false;
        }
      }
    }
    return true;
  }

  gradient_call<Real>& all_;
  char* memory_ = nullptr;
};

/// Everything that is known before any thread begins.
template <class Real>
[[nodiscard]] gradient_cut plan(gradient_call<Real>& all) {
  problem const& call = all.run.call;
  const index_t lanes = all.run.verb.lanes;
  all.query_columns = ceil_div(call.head_dim_qk, lanes) * lanes;
  all.value_columns = ceil_div(call.head_dim_v, lanes) * lanes;
  all.packs_key = !is_read_in_place(all.run, call.key);
  all.packs_value = !is_read_in_place(all.run, call.value);
  all.slots_per_tile = all.sink_count;
  for (index_t number = 0; number < all.stage_count; ++number) {
    stage_gradient& stage = all.stages[number];
    if (!stage.wanted()) continue;
    if (stage.slots < 0) stage.slots = 3 * lanes;
    stage.slot = all.slots_per_tile;
    all.slots_per_tile += stage.slots;
  }
  const gradient_cut cut = cut_of(all);
  all.chunk_keys = cut.chunk_keys;
  return cut;
}

/// Bytes of scratch of all threads, beside what the stages sum.
template <class Real>
[[nodiscard]] std::size_t scratch_bytes(gradient_call<Real> const& all, gradient_cut const& cut) {
  const std::size_t tiles = gradient_unit<Real>::tile_bytes(all), threads = static_cast<std::size_t>(cut.threads);
  const std::size_t shared =
      cut.splits_units ? tiles + gradient_unit<Real>::flag_bytes(all, cut.chunks) : tiles * threads;
  return shared + threads * gradient_unit<Real>::work_bytes(all);
}

/// A checked call, before it is planned; `noted` is of its rule as the caller gave it.
template <class Real, class Rule>
[[nodiscard]] gradient_call<Real> gradient_call_of(kernel<Real> const& run, gradient_verbs<Real> const& verb,
                                                   rule_gradient_verb<Real> rule_gradient, backward_problem const& want,
                                                   noted_stages<Rule>& noted) noexcept {
  return {run, verb, rule_gradient, want, noted.stages, differentiable_stages<Rule>, noted.sinks, sink_count<Rule>};
}

/// Runs a call. Real is the accumulate type.
template <class Real>
void backward(gradient_call<Real>& all) {
  problem const& call = all.run.call;
  const gradient_cut cut = plan(all);
  stage_sums<Real> sums(all);
  sums.clear();
  const index_t units = cut.batch_per_wave * cut.heads_per_wave;
  for (index_t wave = 0; wave < cut.waves; ++wave) {
    if (cut.splits_units) {
      for (index_t place = 0; place < units; ++place) {
        differentiate_unit_together(all, cut, unit_of(all, cut, wave, place));
      }
    } else {
      parallel_for(units, workers_of(call, cut.threads),
                   [&](index_t place) { differentiate_unit(all, cut, unit_of(all, cut, wave, place)); });
    }
  }
  sums.write();
}

}  // namespace HEED_ABI
}  // namespace heed::detail
