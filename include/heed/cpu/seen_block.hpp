// What the heads of a few query rows see of a block of keys, and the blocks whose keys are read together.
#pragma once

#include "heed/base/scratch.hpp"
#include "heed/cpu/packing.hpp"
#include "heed/cpu/row_set.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct seen_block {
  block* area;      // of each head
  cover* seen;      // by each head
  key_range& read;  // what is read for them

  /// Of the block of keys that begins at `begin`, where head h may see `range[h]`.
  template <class Real>
  void look_at(kernel<Real> const& run, sequence const& seq, index_t batch, row_set<Real> const& set,
               key_range const* range, index_t begin, bool shows_hidden) const {
    read = {begin + run.block_keys, begin};
    for (index_t h = 0; h < set.heads; ++h) {
      area[h] = {batch,
                 set.head + h,
                 set.row_begin,
                 set.row_begin + set.rows_per_head,
                 greater(begin, range[h].begin),
                 lesser(begin + run.block_keys, range[h].end),
                 seq.offset};
      seen[h] = area[h].key_begin < area[h].key_end ? run.rule.covers(area[h]) : cover::none;
      if (seen[h] == cover::none && !shows_hidden) continue;
      read = {lesser(read.begin, area[h].key_begin), greater(read.end, area[h].key_end)};
    }
  }

  /// The first run of heads that see something of it, from `head` on; of no rows where there is none. Column 0 of the
  /// scores is that of key `begin`.
  template <class Real>
  [[nodiscard, gnu::noinline]] row_run first_run(row_set<Real> const& set, index_t begin,
                                                 index_t head = 0) const noexcept {
    while (head < set.heads && seen[head] == cover::none) ++head;
    if (head == set.heads) return {0, 0, 0, 0, begin};
    row_run run{head * set.rows_per_head, 0, area[head].key_begin, area[head].key_end, begin};
    for (; head < set.heads && seen[head] != cover::none; ++head) {
      run.rows += set.rows_per_head;
      run.key_begin = lesser(run.key_begin, area[head].key_begin);
      run.key_end = greater(run.key_end, area[head].key_end);
    }
    return run;
  }
  template <class Real>
  [[nodiscard]] row_run next_run(row_set<Real> const& set, row_run const& run) const noexcept {
    return first_run(set, run.block_begin, (run.row + run.rows) / set.rows_per_head);
  }
};

/// Room for some blocks, of `heads` heads each.
class seen_blocks {
 public:
  void carve(carver& from, index_t blocks, index_t heads) {
    heads_ = heads;
    const std::size_t count = static_cast<std::size_t>(blocks * heads);
    area_ = from.take<block>(count);
    seen_ = from.take<cover>(count);
    read_ = from.take<key_range>(static_cast<std::size_t>(blocks));
  }
  [[nodiscard]] seen_block operator[](index_t at) const noexcept {
    return {area_ + at * heads_, seen_ + at * heads_, read_[at]};
  }

 private:
  index_t heads_ = 0;
  block* area_ = nullptr;
  cover* seen_ = nullptr;
  key_range* read_ = nullptr;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
