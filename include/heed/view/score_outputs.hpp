// The scores that a call writes: where, and at which stage of theirs.
#pragma once

#include "heed/view/item_list.hpp"
#include "heed/view/operand.hpp"

namespace heed {

/// What is written of a score: `raw` = scale * q.k, `capped` = after the soft cap, `biased` = after score stages and
/// masks, hidden = -inf.
enum class score_stage : unsigned char { raw, capped, biased };

namespace detail {

struct score_output {
  operand to;
  score_stage stage = score_stage::raw;
};

/// Those of a checked call, in the caller's memory.
struct score_list {
  item_view<score_output> items;

  [[nodiscard]] HEED_INLINE score_output const* begin() const noexcept { return items.first; }
  [[nodiscard]] HEED_INLINE score_output const* end() const noexcept { return items.last; }
  [[nodiscard]] HEED_INLINE bool given() const noexcept { return items.first != items.last; }
  [[nodiscard]] HEED_INLINE bool has(score_stage stage) const noexcept {
    for (score_output const& one : *this) {
      if (one.stage == stage) return true;
    }
    return false;
  }
  /// Whether scores that masks hide are wanted.
  [[nodiscard]] HEED_INLINE bool show_hidden() const noexcept {
    return has(score_stage::raw) || has(score_stage::capped);
  }
};

}  // namespace detail
}  // namespace heed
