// The forward pass for few query rows and many keys: how the keys are split, on how many threads, and merged.
#pragma once

#include "heed/base/workers.hpp"
#include "heed/cpu/few_rows.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Whether a call runs here, on these verbs, and not on tiles of queries, which know dropout and may leave no lane
/// empty. Bits depend on it, so it may ask for the level, types, sizes and options alone.
template <class Real>
[[nodiscard]] bool decodes(problem const& call, row_verbs<Real> const* verb, verbs<Real> const& tile) noexcept {
  if (verb == nullptr || call.drops() || !is_decode(call.seq_len_q, verb->lanes)) return false;
  return tile.columns_per_lane == 1 || call.seq_len_q < tile.lanes;
}

/// How such a call is cut. The size of a split is part of the result; how many are computed at a time, and by whom, is
/// not.
struct decode_cut {
  index_t split_keys = 1;
  index_t splits = 1;
  int threads = 1;
  bool apart = false;       // the splits of one unit are items of their own
  index_t splits_held = 1;  // whose results wait for their merge, for each of
  index_t units_held = 1;   // units
};

template <class Real>
[[nodiscard]] decode_cut decode_cut_of(kernel<Real> const& run, row_verbs<Real> const& verb) {
  problem const& call = run.call;
  decode_cut cut;
  cut.split_keys = blocks_per_split * run.block_keys;
  cut.splits = greater(1, ceil_div(call.seq_len_kv, cut.split_keys));
  if (call.nothing_to_do()) return cut;
  double work = 0;  // in the time of one flop
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    const sequence seq = sequence_of(call, run.rule, batch);
    const block last{
        batch,     0, greater(0, seq.query_len - 1), seq.query_len, seq.key_begin, greater(seq.key_begin, seq.key_end),
        seq.offset};
    if (seq.query_len == 0 || last.key_begin >= last.key_end) continue;
    const key_range keys = run.rule.visible_keys(last);
    const double rows = 2.0 * static_cast<double>(call.group_size * seq.query_len);
    const double per_key =
        static_cast<double>(call.head_dim_qk) * (rows + flops_per_byte * double(element_size(call.key.kind))) +
        static_cast<double>(call.head_dim_v) * (rows + flops_per_byte * double(element_size(call.value.kind)));
    work += static_cast<double>(call.num_kv_heads) * per_key * static_cast<double>(greater(keys.end - keys.begin, 0));
  }
  const double repaid = work / flops_per_thread;
  if (call.options.threads != 1 && repaid >= 2) {
    const int wanted = call.options.threads == 0 ? workers_of(call, 0).available() : call.options.threads;
    cut.threads = repaid < wanted ? static_cast<int>(repaid) : wanted;
  }
  const index_t units = few_rows<Real>::units(call);
  cut.apart = cut.splits > 1 && units < index_t{4} * cut.threads && cut.threads > 1;
  if (!cut.apart) {
    if (units < cut.threads) cut.threads = static_cast<int>(units);
    return cut;
  }
  const few_rows<Real> unit(run, verb, 0);
  const index_t bytes = static_cast<index_t>(unit.state_size() * sizeof(Real));
  const index_t held = greater(index_t{4} * cut.threads, partial_bytes / bytes);
  cut.splits_held = lesser(cut.splits, held);
  cut.units_held = greater(1, lesser(units, held / cut.splits_held));
  if (units * cut.splits < cut.threads) cut.threads = static_cast<int>(units * cut.splits);
  return cut;
}

/// Bytes of what waits for its merge.
template <class Real>
[[nodiscard]] std::size_t held_bytes(kernel<Real> const& run, row_verbs<Real> const& verb, decode_cut const& cut) {
  if (!cut.apart) return 0;
  const few_rows<Real> unit(run, verb, 0);
  return static_cast<std::size_t>(cut.units_held * (cut.splits_held + 1)) * unit.state_size() * sizeof(Real);
}

/// What the items of a call do: one unit (see few_rows) as a whole, one split of it, or the merge of its splits.
enum class decode_step : unsigned char { whole, split, merge };

template <class Real>
class decode_call {
 public:
  decode_call(kernel<Real> const& run, row_verbs<Real> const& verb)
      : run_(run), verb_(verb), cut_(decode_cut_of(run, verb)), units_(few_rows<Real>::units(run.call)) {}

  void run() {
    if (!cut_.apart) {
      last_unit_ = units_;
      return each(decode_step::whole, 1);
    }
    state_size_ = few_rows<Real>(run_, verb_, 0).state_size();
    const scratch memory(held_bytes(run_, verb_, cut_), scratch_use::shared);
    held_ = reinterpret_cast<Real*>(memory.data());
    for (first_unit_ = 0; first_unit_ < units_; first_unit_ = last_unit_) {
      last_unit_ = lesser(units_, first_unit_ + cut_.units_held);
      for (first_split_ = 0; first_split_ < cut_.splits; first_split_ = last_split_) {
        last_split_ = lesser(cut_.splits, first_split_ + cut_.splits_held);
        each(decode_step::split, last_split_ - first_split_);
        each(decode_step::merge, 1);
      }
    }
  }

 private:
  /// One step for `parts` parts of each unit at hand.
  void each(decode_step step, index_t parts) {
    parallel_for((last_unit_ - first_unit_) * parts, workers_of(run_.call, cut_.threads), [&](index_t item) {
      const auto [place, part] = divide(item, parts);
      few_rows<Real> rows(run_, verb_, first_unit_ + place);
      const scratch memory(rows.scratch_bytes());
      rows.open(memory.data());
      switch (step) {
        case decode_step::whole: return rows.attend(cut_.split_keys);
        case decode_step::split:
          return rows.attend_split(first_split_ + part, cut_.split_keys, state(rows, place, 1 + part));
        case decode_step::merge: return merge(rows, place);
      }
    });
  }

  [[nodiscard]] row_state<Real> state(few_rows<Real> const& rows, index_t place, index_t slot) const noexcept {
    return rows.state_at(held_ + static_cast<std::size_t>(place * (cut_.splits_held + 1) + slot) * state_size_);
  }

  /// The same merges in the same order as few_rows::attend.
  void merge(few_rows<Real>& rows, index_t place) const {
    const row_state<Real> all = state(rows, place, 0);
    const key_range keys = rows.visible();
    if (first_split_ == 0) rows.clear(all);
    for (index_t split = first_split_; split < last_split_; ++split) {
      const index_t begin = split * cut_.split_keys;
      if (begin + cut_.split_keys <= keys.begin || begin >= keys.end) continue;
      const row_state<Real> next = state(rows, place, 1 + split - first_split_);
      if (begin <= keys.begin) {
        rows.copy(next, all);
      } else {
        rows.merge(all, next);
      }
    }
    if (last_split_ == cut_.splits) rows.write(all);
  }

  kernel<Real> run_;
  row_verbs<Real> const& verb_;
  decode_cut cut_;
  index_t units_;
  std::size_t state_size_ = 0;
  Real* held_ = nullptr;  // [units held, 1 + splits held] states
  index_t first_unit_ = 0, last_unit_ = 0, first_split_ = 0, last_split_ = 0;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
