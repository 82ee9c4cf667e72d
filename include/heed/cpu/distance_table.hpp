// A relative bias as a table by distance for each head, made once per call: what the kernels read.
#pragma once

#include "heed/score/relative.hpp"
#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Terms [batch, head, away], of the accumulate type, for away = i + off - j from `lows[batch] - padding` on; a batch
/// or a list of lows that all share has stride 0. Beyond `count` distances the terms stay what they are.
struct distance_table {
  static constexpr index_t padding = 16;  // lanes of a strip

  void const* terms = nullptr;
  index_t const* lows = nullptr;
  index_t batch_stride = 0, head_stride = 0, low_stride = 0, count = 0;

  static constexpr bool is_stage = true;

  template <class Real>
  [[nodiscard]] HEED_FN added_terms<Real> on(strip<Real> const& rows) const noexcept {
    const index_t low = lows[rows.batch * low_stride];
    const index_t away = clamped_add(rows.query - rows.key, rows.offset);
    const index_t place = lesser(greater(away, low - padding), low + count) - (low - padding);
    return {static_cast<Real const*>(terms) + rows.batch * batch_stride + rows.head * head_stride + place};
  }
};

/// How many distances a call needs terms for, and whether all sequences share them.
class distance_range {
 public:
  distance_range(relative_bias const& rule, problem const& call) noexcept {
    const index_t all_rows = greater(call.seq_len_q, 1), all_keys = greater(call.seq_len_kv, 1);
    const anchor& where = call.options.anchor;
    index_t least = 0, most = 0;  // of all off
    if (where.kind() == anchor::rule::bottom_right) {
      least = -call.seq_len_q;
      most = call.seq_len_kv;
    } else if (where.kind() == anchor::rule::one_offset) {
      least = most = where.offset(0, 0, 0);
    } else if (where.kind() == anchor::rule::offsets && call.batch_size > 0) {
      least = most = where.offset(0, 0, 0);
      for (index_t batch = 1; batch < call.batch_size; ++batch) {
        least = lesser(least, where.offset(batch, 0, 0));
        most = greater(most, where.offset(batch, 0, 0));
      }
    }
    const index_t reach = lesser(rule.max_distance, farthest);
    low_ = lesser(greater(clamped_add(least, 1 - all_keys), -reach), reach);
    count_ = greater(lesser(clamped_add(most, all_rows - 1), reach) - low_ + 1, 1);
    // Offsets that lie far apart, and a bucket for each distance: every sequence has a table of its own.
    is_shared_ = where.kind() != anchor::rule::offsets || count_ <= call.batch_size * (all_rows + all_keys);
    if (!is_shared_) count_ = all_rows + all_keys;
    last_key_ = all_keys - 1;
    tables_ = is_shared_ ? 1 : call.batch_size;
    heads_ = call.num_heads;
    term_words_ = call.query.kind == element_kind::float64 ? 2 : 1;
  }

  [[nodiscard]] index_t low(problem const& call, index_t batch) const noexcept {
    if (is_shared_) return low_;
    const index_t first = clamped_add(call.options.anchor.offset(batch, 0, 0), -last_key_);
    return lesser(greater(first, -farthest), farthest);
  }
  [[nodiscard]] index_t count() const noexcept { return count_; }
  [[nodiscard]] index_t tables() const noexcept { return tables_; }
  [[nodiscard]] index_t head_stride() const noexcept { return count_ + 2 * distance_table::padding; }
  /// Of 32 bits: the lows, the terms, and what it takes to align them.
  [[nodiscard]] index_t words() const noexcept { return 1 + tables_ * (2 + heads_ * head_stride() * term_words_); }

 private:
  static constexpr index_t farthest = index_t{1} << 60;
  index_t low_ = 0, count_ = 0, last_key_ = 0, tables_ = 1, heads_ = 0, term_words_ = 1;
  bool is_shared_ = true;
};

template <class Real>
void fill_terms(relative_bias const& rule, index_t low, index_t head_stride, index_t heads, Real* to) noexcept {
  for (index_t place = 0; place < head_stride; ++place) {
    const index_t bucket = rule.bucket(distance_table::padding - low - place);
    for (index_t head = 0; head < heads; ++head) {
      to[head * head_stride + place] = static_cast<Real>(rule.table(bucket, head));
    }
  }
}

/// Makes the table in `memory`, of distance_range::words.
[[nodiscard]] inline distance_table tabulate(relative_bias const& rule, problem const& call, std::uint32_t* memory) {
  const distance_range range(rule, call);
  if (reinterpret_cast<std::uintptr_t>(memory) % sizeof(index_t) != 0) ++memory;
  index_t* const lows = reinterpret_cast<index_t*>(memory);
  void* const terms = lows + range.tables();
  distance_table made;
  made.terms = terms;
  made.lows = lows;
  made.count = range.count();
  made.head_stride = range.head_stride();
  made.low_stride = range.tables() == 1 ? 0 : 1;
  made.batch_stride = range.tables() == 1 ? 0 : call.num_heads * made.head_stride;
  for (index_t batch = 0; batch < range.tables(); ++batch) {
    lows[batch] = range.low(call, batch);
    const index_t first = batch * call.num_heads * made.head_stride;
    if (call.query.kind == element_kind::float64) {
      fill_terms(rule, lows[batch], made.head_stride, call.num_heads, static_cast<double*>(terms) + first);
    } else {
      fill_terms(rule, lows[batch], made.head_stride, call.num_heads, static_cast<float*>(terms) + first);
    }
  }
  return made;
}

}  // namespace HEED_ABI

template <>
inline constexpr int differentiable_stages<distance_table> = 1;

}  // namespace heed::detail
