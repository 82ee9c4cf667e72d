// Memory that the next block of keys, or the next piece of work, will read, asked for while this one computes.
#pragma once

#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Where a verb asks for memory ahead of its use: one line in each turn of its inner loop, where it costs nothing.
/// A burst of such requests would wait for one another.
struct line_stream {
  char const* next;
  index_t step;            // bytes from turn to turn; 0: nothing is wanted, and a line that is near anyway is asked for
  index_t group_step = 0;  // bytes from one group of turns to the next; 0: they follow one another
  index_t groups = 0;      // that are left

  HEED_VERB void begin_next_group(char const* start) noexcept {
    if (group_step == 0) return;
    next = start + group_step;
    if (--groups == 0) step = 0;
  }
};

/// What so many turns of a verb would ask for, where its steps are larger than one turn.
HEED_VERB void ask_ahead(line_stream& ahead, index_t turns) noexcept {
  char const* const end = ahead.next + ahead.step * turns;
  for (; ahead.next < end; ahead.next += ahead.step < 64 ? 64 : ahead.step) __builtin_prefetch(ahead.next, 0, 2);
  ahead.next = end;
}

/// Stretches of memory, handed out to the verbs as they run: two of the next block of keys, then up to four of the next
/// piece of work.
class read_ahead {
 public:
  /// `idle`: a place that is in the cache whenever a verb runs.
  explicit read_ahead(void const* idle) noexcept : idle_(static_cast<char const*>(idle)) {}

  void want(void const* begin, index_t bytes) noexcept {
    piece_.items[piece_.count++] = {static_cast<char const*>(begin), bytes};
  }

  /// What is left of the last block is not wanted any more.
  void begin_block() noexcept { block_.count = block_.done = 0; }
  void want_of_block(void const* begin, index_t bytes) noexcept {
    block_.items[block_.count++] = {static_cast<char const*>(begin), bytes};
  }

  /// So many bytes of rows that lie far apart, soon: for the next verb, which works in groups of turns. More rows are
  /// asked for than a group has turns, or fewer: those behind them will be wanted, too.
  void want_rows(void const* begin, index_t bytes, index_t stride) noexcept {
    rows_ = {static_cast<char const*>(begin), stride, line_bytes, ceil_div(bytes, line_bytes)};
  }

  /// The lines for a verb of so many turns.
  [[nodiscard]] line_stream take(index_t turns) noexcept {
    if (rows_.groups > 0) {
      const line_stream rows = rows_;
      rows_.groups = 0;
      return rows;
    }
    stretch_list& list = block_.done < block_.count ? block_ : piece_;
    if (list.done == list.count || turns <= 0) return {idle_, 0};
    stretch& now = list.items[list.done];
    const line_stream stream{now.begin, lesser(line_bytes, ceil_div(now.bytes, turns))};
    now.begin += stream.step * turns;
    now.bytes -= stream.step * turns;
    if (now.bytes <= 0) ++list.done;
    return stream;
  }

 private:
  static constexpr index_t line_bytes = 64;
  struct stretch {
    char const* begin;
    index_t bytes;
  };
  struct stretch_list {
    stretch items[4];  // at most; of which count are there
    int count = 0;
    int done = 0;
  };
  stretch_list block_, piece_;
  line_stream rows_{nullptr, 0};
  char const* idle_;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
