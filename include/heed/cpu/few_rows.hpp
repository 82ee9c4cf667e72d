// The walk of a few query rows over the keys of their key-value head: the counterpart of tile.hpp, with head_dim or the
// keys in the lanes instead of the queries.
#pragma once

#include "heed/base/fill.hpp"
#include "heed/cpu/partition.hpp"
#include "heed/cpu/row_rules.hpp"
#include "heed/cpu/row_set.hpp"
#include "heed/cpu/row_source.hpp"
#include "heed/cpu/seen_block.hpp"
#include "heed/cpu/shown_rows.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// One unit of work: the query rows of the heads, or of up to rows_together of them, that share one key-value head of
/// one batch item.
template <class Real>
class few_rows {
 public:
  few_rows(kernel<Real> const& run, row_verbs<Real> const& verb, index_t unit)
      : run_(run),
        call_(run.call),
        verb_(verb),
        batch_(divide(divide(unit, chunks(call_)).whole, call_.num_kv_heads).whole),
        kv_head_(divide(divide(unit, chunks(call_)).whole, call_.num_kv_heads).rest),
        head_begin_(kv_head_ * call_.group_size + divide(unit, chunks(call_)).rest * heads_together(call_)),
        seq_(sequence_of(run.call, run.rule, batch_)),
        key_(row_source_of(verb, call_.key, batch_, kv_head_, seq_)),
        value_(row_source_of(verb, call_.value, batch_, kv_head_, seq_)),
        query_columns_(padded(key_.columns)),
        out_columns_(padded(value_.columns) + verb.lanes),
        padded_rows_(heads_together(call_) * call_.seq_len_q + 3),  // a tile of four may begin at any row there is
        blocks_together_(lesser(ceil_div(greater(1, call_.seq_len_kv), run.block_keys),
                                blocks_together(padded_rows_, run.block_keys, sizeof(Real)))),
        score_stride_(padded(blocks_together_ * run.block_keys) + verb.lanes),
        rules_(run),
        shown_(run, batch_, score_stride_) {}

  /// Query heads of one unit, and how many units there are.
  [[nodiscard]] static index_t heads_together(problem const& call) noexcept {
    return greater(1, lesser(call.group_size, divide(rows_together, greater(1, call.seq_len_q)).whole));
  }
  [[nodiscard]] static index_t units(problem const& call) noexcept {
    return call.batch_size * call.num_kv_heads * chunks(call);
  }

  [[nodiscard]] std::size_t scratch_bytes() {
    carver count(nullptr);
    carve(count);
    return count.used() + 64;
  }
  [[nodiscard]] bool key_in_place() const noexcept { return key_.in_place; }
  [[nodiscard]] bool value_in_place() const noexcept { return value_.in_place; }
  /// Numbers in the state of one split.
  [[nodiscard]] std::size_t state_size() const noexcept {
    return static_cast<std::size_t>(padded(padded_rows_ * (out_columns_ + 2)));
  }
  [[nodiscard]] row_state<Real> state_at(Real* memory) const noexcept {
    const index_t rows = padded_rows_;
    return {memory + rows * out_columns_, memory + rows * (out_columns_ + 1), memory};
  }

  /// Takes its memory, of scratch_bytes, and packs the query rows.
  void open(char* memory) {
    carver from(memory);
    carve(from);
    const index_t rows_there = seq_.query_len;
    const index_t heads_left = (kv_head_ + 1) * call_.group_size - head_begin_;
    all_ = {head_begin_, lesser(heads_together(call_), heads_left), 0, rows_there, query_, scores_, copy_, &blocks_};
    for (index_t row = 0; row < all_.rows(); ++row) {
      const auto [head, query] = divide(row, rows_there);
      pack_query_row(run_, verb_, call_.query.row(batch_, all_.head + head, query), key_.columns, line_,
                     query_ + row * query_columns_);
    }
    // A tile of four rows may take up rows that are not there: they weigh nothing.
    const index_t rows = all_.rows(), missing = padded_rows_ - rows;
    fill(query_ + rows * query_columns_, missing * query_columns_, Real(0));
    fill(scores_ + rows * score_stride_, missing * score_stride_, Real(0));
  }

  /// The keys that any row may see.
  [[nodiscard]] key_range visible() const {
    key_range all{seq_.key_end, seq_.key_begin};
    for (index_t head = all_.head; head < all_.head + all_.heads; ++head) {
      const key_range one = visible(all_, head);
      if (one.begin < one.end) all = {lesser(all.begin, one.begin), greater(all.end, one.end)};
    }
    return all;
  }

  /// State of all rows after the keys of one split alone.
  void attend_split(index_t split, index_t split_keys, row_state<Real> const& state) {
    const key_range keys{split * split_keys, (split + 1) * split_keys};
    const key_range seen = visible();
    clear(state);
    shown_.write_unseen(all_, greater(keys.begin, seen.begin), lesser(keys.end, seen.end));
    walk(
        all_, keys, [&](index_t) { return state; }, row_pass::attend);
    leave_out_hidden(keys, state);
  }

  /// The splits of `more` follow those of `state`.
  void merge(row_state<Real> const& state, row_state<Real> const& more) const noexcept {
    verb_.merge_rows(all_.rows(), state.row_max, state.row_sum, state.out, more.row_max, more.row_sum, more.out,
                     out_columns_);
  }
  void copy(row_state<Real> const& from, row_state<Real> const& to) const noexcept {
    for (std::size_t i = 0; i < state_size(); ++i) to.out[i] = from.out[i];
  }
  void clear(row_state<Real> const& state) const noexcept { clear(state, padded_rows_); }

  /// All keys on this thread: some splits are walked together, each has a state of its own.
  void attend(index_t split_keys) {
    const key_range keys = visible();
    const row_state<Real> all = state_at(state_), next = state_at(next_state_);
    row_state<Real> now = all;  // of the split at hand
    index_t split = -1;         // none yet
    const auto end_split = [&] {
      if (split < 0) return;
      leave_out_hidden({split * split_keys, (split + 1) * split_keys}, now);
      if (now.out == next.out) merge(all, next);
      now = next;
    };
    clear(all);
    shown_.write_unseen(all_, keys.begin, keys.end);
    walk(
        all_, keys,
        [&](index_t key) {
          if (key / split_keys == split) return now;
          end_split();
          if (split >= 0) clear(now);
          split = key / split_keys;
          return now;
        },
        row_pass::attend);
    end_split();
    write(all);
  }

  /// Writes all outputs, once all keys are seen.
  void write(row_state<Real> const& state) {
    add_sinks(state);
    for (index_t row = 0; row < all_.rows(); ++row) write_row(state, row);
    const key_range seen = visible();
    const bool sees = seen.begin < seen.end;
    shown_.write_unseen(all_, 0, sees ? seen.begin : call_.seq_len_kv);
    shown_.write_unseen(all_, sees ? seen.end : call_.seq_len_kv, call_.seq_len_kv);
    if (call_.weights.given()) write_weights(state, sees ? seen : key_range{0, 0});
    for (index_t head = all_.head; head < all_.head + all_.heads; ++head) {
      for (index_t row = seq_.query_len; row < call_.seq_len_q; ++row) write_empty_row(call_, batch_, head, row);
    }
  }

 private:
  [[nodiscard]] index_t padded(index_t columns) const noexcept { return round_up_pow2(columns, verb_.lanes); }
  [[nodiscard]] static index_t chunks(problem const& call) noexcept {
    return greater(1, ceil_div(call.group_size, heads_together(call)));
  }

  void carve(carver& from) {
    const auto take = [&](index_t count) { return from.template take<Real>(static_cast<std::size_t>(count)); };
    const index_t rows = padded_rows_;
    query_ = take(rows * query_columns_);
    scores_ = take(rows * score_stride_);
    copy_ = take(rows * score_stride_);
    single_scores_ = take(4 * score_stride_);
    blocks_.carve(from, blocks_together_, heads_together(call_));
    single_blocks_.carve(from, blocks_together_, 1);
    rules_.carve(from);
    sums_ = take(4 * verb_.lanes * verb_.lanes);
    line_ = take(greater(run_.block_keys, greater(query_columns_, out_columns_)));
    state_ = take(static_cast<index_t>(state_size()));
    next_state_ = take(static_cast<index_t>(state_size()));
    single_state_ = take(4 * (out_columns_ + 2));
    if (!key_.in_place) packed_key_ = take(run_.block_keys * key_.columns);
    if (!value_.in_place) packed_value_ = take(run_.block_keys * value_.columns);
  }

  void clear(row_state<Real> const& state, index_t rows) const noexcept {
    fill(state.row_max, rows, -infinity<Real>);
    fill(state.row_sum, rows, Real(0));
    fill(state.out, rows * out_columns_, Real(0));
  }

  [[nodiscard]] row_state<Real> state_at_row(Real* memory, index_t row) const noexcept {
    return {memory + 4 * out_columns_ + row, memory + 4 * out_columns_ + 4 + row, memory + row * out_columns_};
  }
  /// One of all rows, with scores of its own.
  [[nodiscard]] row_set<Real> single(index_t row) const noexcept {
    fill(single_scores_ + score_stride_, 3 * score_stride_, Real(0));
    return {all_.head + row / all_.rows_per_head,
            1,
            row % all_.rows_per_head,
            1,
            query_ + row * query_columns_,
            single_scores_,
            copy_,
            &single_blocks_};
  }

  /// An infinity or a NaN in the state after these keys: again without the values that a row may not see, for 0 * NaN
  /// is NaN. What was finite, and what remains, keeps its bits.
  void leave_out_hidden(key_range keys, row_state<Real> const& state) {
    for (index_t row = 0; row < all_.rows(); ++row) {
      if (verb_.scale_row(state.out + row * out_columns_, out_columns_, Real(1), line_)) continue;
      const row_state<Real> alone = state_at_row(single_state_, 0);
      clear(alone, 4);
      walk(
          single(row), keys, [&](index_t) { return alone; }, row_pass::attend_visible);
      for (index_t i = 0; i < out_columns_; ++i) state.out[row * out_columns_ + i] = alone.out[i];
    }
  }

  [[nodiscard]] key_range visible(row_set<Real> const& set, index_t head) const {
    const block whole{batch_,         head,
                      set.row_begin,  set.row_begin + set.rows_per_head,
                      seq_.key_begin, greater(seq_.key_begin, seq_.key_end),
                      seq_.offset};
    if (set.rows_per_head == 0 || whole.key_begin >= whole.key_end) return {0, 0};
    if (call_.scores.show_hidden()) return {whole.key_begin, whole.key_end};
    return run_.rule.visible_keys(whole);
  }

  /// For each run of heads that see something of a block of keys: scores, those that the rule hides -inf, and what the
  /// pass does with them. Blocks that it hides from all are never read. A score's place in its vector counts from
  /// the block's first key: no row's bits depend on what other rows see. Keys of some blocks are read before their
  /// values are: one long stretch of memory after the other. `state_at_key` is asked for a block before its values.
  void walk(row_set<Real> const& set, key_range within, function_ref<row_state<Real>(index_t)> state_at_key,
            row_pass pass) {
    const bool shows_hidden = pass == row_pass::attend && call_.scores.show_hidden();
    key_range range[rows_together];
    key_range all{within.end, within.begin};
    for (index_t h = 0; h < set.heads; ++h) {
      range[h] = visible(set, set.head + h);
      range[h] = {greater(range[h].begin, within.begin), lesser(range[h].end, within.end)};
      if (range[h].begin < range[h].end) all = {lesser(all.begin, range[h].begin), greater(all.end, range[h].end)};
    }
    const index_t step = blocks_together_ * run_.block_keys;
    for (index_t begin = all.begin / step * step; begin < all.end; begin += step) {
      index_t waiting = 0;
      const auto add_waiting = [&] {
        for (index_t i = 0; i < waiting; ++i) {
          const seen_block of = (*set.blocks)[i];
          add_run(set, of, of.first_run(set, begin), state_at_key(of.read.begin), pass);
        }
        waiting = 0;
      };
      index_t at = greater(begin, all.begin / run_.block_keys * run_.block_keys);
      for (; at < lesser(begin + step, all.end); at += run_.block_keys) {
        const seen_block of = (*set.blocks)[waiting];
        of.look_at(run_, seq_, batch_, set, range, at, shows_hidden);
        if (of.read.begin >= of.read.end) continue;
        keys_ = loaded(run_.verb, key_, call_.key, packed_key_, batch_, kv_head_, of.read);
        if (shows_hidden) show_before_rule(set, {0, set.rows(), of.read.begin, of.read.end, begin});
        row_run run = of.first_run(set, begin);
        if (run.rows == 0) continue;
        score_run(set, of, run, pass);
        row_run more = of.next_run(set, run);
        if (more.rows == 0) {
          ++waiting;
          continue;
        }
        // The last tile of a run takes up rows behind it: those of the next one may have no scores by then.
        add_waiting();
        const row_state<Real> state = state_at_key(of.read.begin);
        keys_ = loaded(run_.verb, key_, call_.key, packed_key_, batch_, kv_head_, of.read);  // a second look may have
        for (;; run = more) {
          add_run(set, of, run, state, pass);
          more = of.next_run(set, run);
          if (more.rows == 0) break;
          score_run(set, of, more, pass);
        }
      }
      add_waiting();
    }
  }

  /// Scores of a run, through the rule.
  void score_run(row_set<Real> const& set, seen_block const& of, row_run const& run, row_pass pass) {
    score(set, run);
    const index_t begin = run.block_begin, first = run.row / set.rows_per_head;
    for (index_t head = first; head < first + run.rows / set.rows_per_head; ++head) {
      block const& area = of.area[head];
      const index_t row = head * set.rows_per_head;
      hide(set, row, begin, run.key_begin, area.key_begin);
      hide(set, row, begin, area.key_end, run.key_end);
      if (rules_.changes(of.seen[head])) {
        rules_.apply(set.scores + row * score_stride_ + area.key_begin - begin, score_stride_, area, of.seen[head]);
      }
      if (pass == row_pass::attend) show_after_rule(set, row, begin, area);
    }
  }

  void add_run(row_set<Real> const& set, seen_block const& of, row_run const& run, row_state<Real> const& state,
               row_pass pass) {
    values_ = loaded(run_.verb, value_, call_.value, packed_value_, batch_, kv_head_, of.read);
    visit(set, run, state, pass);
  }

  /// Scores of all rows before the rule, as the caller wants to see them: also those of heads that see nothing here.
  void show_before_rule(row_set<Real> const& set, row_run const& run) const {
    score(set, run);
    shown_.write(set, run, score_stage::raw);
    Real* const corner = set.scores + run.key_begin - run.block_begin;
    for (index_t h = 0; h < set.heads; ++h) {
      const block area{batch_,        set.head + h, set.row_begin, set.row_begin + set.rows_per_head,
                       run.key_begin, run.key_end,  seq_.offset};
      rules_.cap(corner + h * set.rows_per_head * score_stride_, score_stride_, area);
    }
    shown_.write(set, run, score_stage::capped);
  }
  /// Those of one head as they are softmaxed, also where they wait to become weights.
  void show_after_rule(row_set<Real> const& set, index_t row, index_t block_begin, block const& area) const {
    const row_run run{row, set.rows_per_head, area.key_begin, area.key_end, block_begin};
    shown_.write(set, run, score_stage::biased);
    if (weights_hold_scores<Real>(call_)) shown_.write(set, run, call_.weights);
  }

  void visit(row_set<Real> const& set, row_run const& run, row_state<Real> const& state, row_pass pass) {
    if (pass != row_pass::attend) keep_scores(set, run);
    verb_.softmax_rows(set.scores + run.row * score_stride_ + first_column(run), score_stride_, run.rows,
                       last_column(run) - first_column(run), state.row_max + run.row, state.row_sum + run.row,
                       state.out + run.row * out_columns_, out_columns_);
    if (pass == row_pass::weigh) return write_weights(run);
    if (pass == row_pass::attend) {
      return add(set, run, values_, state.out + run.row * out_columns_);
    }
    if (pass == row_pass::average) {
      for (index_t i = first_column(run); i < last_column(run); ++i) set.scores[i] *= half_factor_;
    }
    const key_range keys{run.key_begin, run.key_end};
    const scratch memory(static_cast<std::size_t>((keys.end - keys.begin) * values_.columns) * sizeof(Real));
    Real* const packed = reinterpret_cast<Real*>(memory.data());
    const row_source seen = visible_rows(run_.verb, values_, set.copy + keys.begin - run.block_begin, packed, keys);
    add(set, run, seen, state.out);
  }

  void add(row_set<Real> const& set, row_run const& run, row_source const& values, Real* out) const noexcept {
    const index_t begin = run.key_begin, lead = begin - run.block_begin;
    verb_.add_rows(set.scores + run.row * score_stride_ + lead, score_stride_, run.rows, values.at(begin), values.kind,
                   values.stride, lead, run.key_end - begin, values.end - begin, values.columns, out, out_columns_);
  }

  [[nodiscard]] index_t first_column(row_run const& run) const noexcept {
    return round_down_pow2(run.key_begin - run.block_begin, verb_.lanes);
  }
  [[nodiscard]] index_t last_column(row_run const& run) const noexcept { return padded(run.key_end - run.block_begin); }

  /// Scores of a run, -inf in the rest of their vectors.
  void score(row_set<Real> const& set, row_run const& run) const noexcept {
    verb_.dot_rows(set.query + run.row * query_columns_, query_columns_, run.rows, keys_.at(run.key_begin), keys_.kind,
                   keys_.stride, run.key_end - run.key_begin, keys_.end - run.key_begin, keys_.columns,
                   set.scores + run.row * score_stride_ + run.key_begin - run.block_begin, score_stride_, sums_);
    const index_t first = first_column(run), last = last_column(run), end_row = run.row + run.rows;
    const index_t begin = run.key_begin - run.block_begin, end = run.key_end - run.block_begin;
    Real* line = set.scores + run.row * score_stride_;
    for (index_t row = run.row; row < end_row; ++row, line += score_stride_) {
      fill(line + first, begin - first, -infinity<Real>);
      fill(line + end, last - end, -infinity<Real>);
    }
    // Rows behind the run may be taken up by its last tile.
    for (index_t row = end_row; row < lesser(set.rows(), end_row + 3); ++row, line += score_stride_) {
      fill(line + first, last - first, Real(0));
    }
  }

  void hide(row_set<Real> const& set, index_t row, index_t block_begin, index_t begin, index_t end) const noexcept {
    for (index_t r = row; begin < end && r < row + set.rows_per_head; ++r) {
      fill(set.scores + r * score_stride_ + begin - block_begin, end - begin, -infinity<Real>);
    }
  }

  void keep_scores(row_set<Real> const& set, row_run const& run) const noexcept {
    for (index_t row = run.row; row < run.row + run.rows; ++row) {
      for (index_t i = first_column(run); i < last_column(run); ++i) {
        set.copy[row * score_stride_ + i] = set.scores[row * score_stride_ + i];
      }
    }
  }

  [[nodiscard]] static bool is_finite(Real value) noexcept { return value - value == Real(0); }

  /// The place of a column in a row of out.
  [[nodiscard]] index_t place_of(index_t column) const noexcept {
    const index_t whole = round_down_pow2(value_.columns, verb_.lanes);
    return column < whole ? column : column + padded(value_.columns) - value_.columns;
  }

  /// What rows begin with, as a split of its own.
  void add_sinks(row_state<Real> const& state) {
    const row_state<Real> next = state_at(next_state_);
    bool any = false;
    for (index_t row = 0; row < all_.rows(); ++row) {
      const row_start start = run_.rule.start_of(all_.head + row / all_.rows_per_head);
      if (start.sum == 0) continue;
      if (!any) clear(next);
      any = true;
      next.row_max[row] = static_cast<Real>(start.max);
      next.row_sum[row] = next.out[(row + 1) * out_columns_ - 1] = static_cast<Real>(start.sum);
    }
    if (any) merge(state, next);
  }

  void write_row(row_state<Real> const& state, index_t row) {
    const auto [place, query] = divide(row, all_.rows_per_head);
    const index_t head = all_.head + place;
    const Real sum = state.row_sum[row], ones = state.out[(row + 1) * out_columns_ - 1];
    const Real factor = ones == Real(0) ? Real(0) : Real(1) / ones;
    if (verb_.scale_row(state.out + row * out_columns_, out_columns_, factor, line_)) {
      for (index_t i = round_down_pow2(value_.columns, verb_.lanes); i < call_.head_dim_v; ++i) {
        line_[i] = line_[place_of(i)];
      }
    } else {
      recover(state, row, factor);
    }
    operand const& to = call_.out;
    run_.verb.unpack_rows(line_, 1, call_.head_dim_v, to.row(batch_, head, query), to.kind, 0, to.strides[3]);
    if (!call_.lse.given()) return;
    write_lse(call_, batch_, head, query,
              sum == Real(0) ? -infinity<double>
                             : static_cast<double>(state.row_max[row]) + __builtin_log(static_cast<double>(sum)));
  }

  /// A sum that overflowed before its division: the mean of such values is not infinite, and is computed as one, from
  /// the final probabilities. Half of everything, so that probabilities that round to a little over 1 in sum do not
  /// pass the largest value. What was finite keeps its bits.
  void recover(row_state<Real> const& state, index_t row, Real factor) {
    const row_set<Real> one = single(row);
    const row_state<Real> again = state_at_row(single_state_, 0);
    clear(again, 4);
    again.row_max[0] = state.row_max[row];
    half_factor_ = factor * Real(0.5);
    walk(
        one, visible(one, one.head), [&](index_t) { return again; }, row_pass::average);
    constexpr Real most = sizeof(Real) == 4 ? Real(__FLT_MAX__) : Real(__DBL_MAX__);
    for (index_t i = 0; i < call_.head_dim_v; ++i) {
      const Real before = state.out[row * out_columns_ + place_of(i)], half = again.out[place_of(i)];
      const bool overflows = is_finite(half) && !is_finite(half * Real(2));
      line_[i] = is_finite(before) ? (before + Real(0)) * factor
                 : !overflows      ? half * Real(2)
                 : half > Real(0)  ? most
                                   : -most;
    }
  }

  void write_weights(row_state<Real> const& state, key_range seen) {
    const row_state<Real> again = state_at(next_state_);
    clear(again);
    const bool hold_scores = weights_hold_scores<Real>(call_);
    for (index_t row = 0; row < all_.rows(); ++row) {
      again.row_max[row] = state.row_max[row];
      factor_[row] = state.row_sum[row] == Real(0) ? Real(0) : Real(1) / state.row_sum[row];
      const index_t head = all_.head + row / all_.rows_per_head, query = row % all_.rows_per_head;
      fill_row(call_.weights, batch_, head, query, 0, hold_scores ? seen.begin : call_.seq_len_kv, 0.0f);
      if (!hold_scores) continue;
      run_.verb.weigh_rows(static_cast<Real*>(call_.weights.row(batch_, head, query)) + seen.begin, 0, 1,
                           seen.end - seen.begin, run_.to_exponent, state.row_max + row, factor_ + row);
      fill_row(call_.weights, batch_, head, query, seen.end, call_.seq_len_kv, 0.0f);
    }
    if (!hold_scores)
      walk(
          all_, seen, [&](index_t) { return again; }, row_pass::weigh);
  }

  void write_weights(row_run const& run) noexcept {
    const index_t count = run.key_end - run.key_begin;
    for (index_t row = run.row; row < run.row + run.rows; ++row) {
      for (index_t i = 0; i < count; ++i) {
        const index_t place = row * score_stride_ + run.key_begin - run.block_begin + i;
        line_[i] = copy_[place] == -infinity<Real> ? Real(0) : scores_[place] * factor_[row];
      }
      shown_.write_keys(all_, row, line_, call_.weights, run.key_begin, run.key_end);
    }
  }

  kernel<Real> const& run_;
  problem const& call_;
  row_verbs<Real> const& verb_;
  index_t batch_, kv_head_, head_begin_;
  sequence seq_;
  row_source key_, value_;        // where they lie, or will be packed
  row_source keys_{}, values_{};  // of the block at hand
  index_t query_columns_, out_columns_, padded_rows_, blocks_together_, score_stride_;
  seen_blocks blocks_, single_blocks_;
  row_rules<Real> rules_;
  shown_rows<Real> shown_;
  row_set<Real> all_{};
  Real half_factor_ = 0;        // of the row that is averaged
  Real factor_[rows_together];  // 1 / row_sum
  Real *query_ = nullptr, *scores_ = nullptr, *copy_ = nullptr, *single_scores_ = nullptr, *sums_ = nullptr,
       *line_ = nullptr, *state_ = nullptr, *next_state_ = nullptr, *single_state_ = nullptr, *packed_key_ = nullptr,
       *packed_value_ = nullptr;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
