// The scores that a call writes: where, and at which stage of theirs.
#pragma once

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

/// As many as the caller asks for; mostly none, which take no memory.
class score_outputs {
 public:
  HEED_INLINE score_outputs() noexcept = default;
  HEED_INLINE score_outputs(score_outputs const& other) { copy(other, other.count_); }
  HEED_INLINE score_outputs& operator=(score_outputs const& other) {
    if (this != &other) {
      if (items_ != nullptr) ::operator delete(static_cast<void*>(items_));
      copy(other, other.count_);
    }
    return *this;
  }
  HEED_INLINE ~score_outputs() {
    if (items_ != nullptr) ::operator delete(static_cast<void*>(items_));
  }

  HEED_INLINE void add(score_output const& more) {
    score_outputs old;
    old.items_ = items_;
    old.count_ = count_;
    copy(old, count_ + 1);
    items_[count_ - 1] = more;
  }
  [[nodiscard]] HEED_INLINE score_output const* begin() const noexcept { return items_; }
  [[nodiscard]] HEED_INLINE score_output const* end() const noexcept { return items_ + count_; }

 private:
  HEED_INLINE void copy(score_outputs const& other, index_t count) {
    items_ = nullptr;
    count_ = count;
    if (count == 0) return;
    items_ = static_cast<score_output*>(::operator new(static_cast<std::size_t>(count) * sizeof(score_output)));
    for (index_t i = 0; i < other.count_; ++i) items_[i] = other.items_[i];
  }

  score_output* items_ = nullptr;
  index_t count_ = 0;
};

/// Those of a checked call, in the caller's memory.
struct score_list {
  score_output const* first = nullptr;
  score_output const* last = nullptr;

  [[nodiscard]] HEED_INLINE score_output const* begin() const noexcept { return first; }
  [[nodiscard]] HEED_INLINE score_output const* end() const noexcept { return last; }
  [[nodiscard]] HEED_INLINE bool given() const noexcept { return first != last; }
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
