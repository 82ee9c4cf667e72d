// item_list<Item>: the few things of one kind that a caller adds to a call one by one, and a view of them.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

#include "heed/base/index.hpp"

namespace heed::detail {

/// As many as the caller adds; mostly none, which take no memory. Not a std::vector: its functions would be compiled
/// for one translation unit's -march and kept by the linker for all of them.
template <class Item>
class item_list {
  static_assert(std::is_trivially_copyable_v<Item>);

 public:
  HEED_INLINE item_list() noexcept = default;
  HEED_INLINE item_list(item_list const& other) { copy(other, other.count_); }
  HEED_INLINE item_list& operator=(item_list const& other) {
    if (this != &other) {
      if (items_ != nullptr) ::operator delete(static_cast<void*>(items_));
      copy(other, other.count_);
    }
    return *this;
  }
  HEED_INLINE ~item_list() {
    if (items_ != nullptr) ::operator delete(static_cast<void*>(items_));
  }

  HEED_INLINE void add(Item const& more) {
    item_list old;
    old.items_ = items_;
    old.count_ = count_;
    copy(old, count_ + 1);
    items_[count_ - 1] = more;
  }
  [[nodiscard]] HEED_INLINE Item const* begin() const noexcept { return items_; }
  [[nodiscard]] HEED_INLINE Item const* end() const noexcept { return items_ + count_; }

 private:
  HEED_INLINE void copy(item_list const& other, index_t count) {
    items_ = nullptr;
    count_ = count;
    if (count == 0) return;
    items_ = static_cast<Item*>(::operator new(static_cast<std::size_t>(count) * sizeof(Item)));
    for (index_t i = 0; i < other.count_; ++i) items_[i] = other.items_[i];
  }

  Item* items_ = nullptr;
  index_t count_ = 0;
};

/// Those of a checked call, in the caller's memory.
template <class Item>
struct item_view {
  Item const* first = nullptr;
  Item const* last = nullptr;

  [[nodiscard]] HEED_INLINE Item const* begin() const noexcept { return first; }
  [[nodiscard]] HEED_INLINE Item const* end() const noexcept { return last; }
  [[nodiscard]] HEED_INLINE index_t size() const noexcept { return last - first; }
  [[nodiscard]] HEED_INLINE Item const& operator[](index_t i) const noexcept { return first[i]; }
};

}  // namespace heed::detail
