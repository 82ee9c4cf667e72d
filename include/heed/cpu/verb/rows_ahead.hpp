// rows_ahead: rows of K or V that will be read soon, asked for while a few query rows are computed.
#pragma once

#include "heed/base/index.hpp"

namespace heed::detail {

/// Rows that lie as far behind those at hand as memory is away, in the order of memory, for the first-level cache. Each
/// tile asks for its share of their lines: more at once than the processor has room for would stall it, and leave
/// memory idle during the tiles that follow. A lone row reads as fast as memory comes, so it asks for one line with
/// each that it reads.
class rows_ahead {
 public:
  /// As many rows as the next `rows_used`, as far as there are `rows_left` in all: none where that is not positive.
  template <class Element>
  HEED_VERB rows_ahead(Element const* next, index_t stride, index_t columns, index_t rows_used, index_t rows_left,
                       index_t bytes_ahead) noexcept
      : row_bytes_(columns * static_cast<index_t>(sizeof(Element))),
        stride_(stride * static_cast<index_t>(sizeof(Element))) {
    const index_t first = lesser(rows_left, lesser(64, 1 + bytes_ahead / row_bytes_));
    row_ = reinterpret_cast<char const*>(next + first * stride);
    rows_ = lesser(rows_used, rows_left - first);
    distance_ = rows_ > 0 ? first * stride_ : 0;
    if (stride_ != row_bytes_ || rows_ <= 0) return;
    row_bytes_ *= rows_;  // one long row
    rows_ = 1;
  }

  /// From a line at hand to the one to ask for with it, in bytes; 0 where nothing is wanted.
  [[nodiscard]] HEED_VERB index_t distance() const noexcept { return distance_; }

  /// One of so many parts.
  [[nodiscard]] HEED_VERB index_t share(index_t parts) const noexcept {
    return ceil_div(rows_ * ceil_div(row_bytes_, cache_line), parts);
  }

  HEED_VERB void ask(index_t lines) noexcept {
    for (; lines > 0 && rows_ > 0; --lines) {
      __builtin_prefetch(row_ + offset_, 0, 3);
      offset_ += cache_line;
      if (offset_ < row_bytes_) continue;
      offset_ = 0;
      row_ += stride_;
      --rows_;
    }
  }

 private:
  static constexpr index_t cache_line = 64;
  char const* row_;
  index_t offset_ = 0;
  index_t row_bytes_, stride_, rows_, distance_;
};

/// How far ahead so many query rows ask for others.
[[nodiscard]] HEED_VERB constexpr index_t bytes_ahead_of(index_t rows) noexcept { return (rows > 2 ? 12 : 6) * 1024; }

/// How often so many query rows pass over the keys: four at a time, and at most two one by one.
[[nodiscard]] HEED_VERB constexpr index_t row_passes(index_t rows) noexcept {
  return rows % 4 == 3 ? rows / 4 + 1 : rows / 4 + rows % 4;
}

}  // namespace heed::detail
