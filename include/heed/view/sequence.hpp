// Where one sequence of the batch lies: how many query rows, which keys, and where the rows stand on the key axis.
#pragma once

#include "heed/base/list.hpp"

namespace heed {

/// Where the query block sits on the key axis: `bottom_right` (default), `top_left`, or `at_offset(...)`.
/// Row i stands at key position i + off, with one off for each sequence; a negative off gives empty rows.
class anchor {
 public:
  enum class rule : unsigned char { bottom_right, top_left, one_offset, offsets };

  HEED_FN constexpr anchor() noexcept {}
  HEED_FN constexpr explicit anchor(rule kind) noexcept : kind_(kind) {}
  HEED_FN constexpr explicit anchor(index_t offset) noexcept : kind_(rule::one_offset), offset_(offset) {}
  HEED_FN constexpr explicit anchor(list<index_t> offsets) noexcept : kind_(rule::offsets), offsets_(offsets) {}

  [[nodiscard]] HEED_FN constexpr rule kind() const noexcept { return kind_; }
  [[nodiscard]] HEED_FN constexpr list<index_t> offsets() const noexcept { return offsets_; }

  /// `off` of one sequence, from its true lengths.
  [[nodiscard]] HEED_FN constexpr index_t offset(index_t batch, index_t query_len, index_t key_len) const noexcept {
    switch (kind_) {
      case rule::bottom_right: return key_len - query_len;
      case rule::one_offset: return offset_;
      case rule::offsets: return offsets_[batch];
      default: return 0;
    }
  }

 private:
  rule kind_ = rule::bottom_right;
  index_t offset_ = 0;
  list<index_t> offsets_;
};

/// off = kv_len - q_len of each sequence (true lengths, not buffer sizes): the last row stands at the last key.
inline constexpr anchor bottom_right{anchor::rule::bottom_right};
/// off = 0: row i stands at key i.
inline constexpr anchor top_left{anchor::rule::top_left};
/// off as given, one for every sequence.
[[nodiscard]] HEED_FN constexpr anchor at_offset(index_t offset) noexcept { return anchor(offset); }
/// off as given, one number per batch item; the list must outlive the call.
[[nodiscard]] HEED_FN constexpr anchor at_offset(list<index_t> offsets) noexcept { return anchor(offsets); }

/// One sequence of the batch. Rows in [0, query_len) exist, keys in [key_begin, key_end) are read, the rest is not.
struct sequence {
  index_t query_len = 0;
  index_t key_begin = 0;
  index_t key_end = 0;
  index_t offset = 0;  ///< row i stands at key position i + offset
};

}  // namespace heed
