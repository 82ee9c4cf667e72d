// Who may add to a query tile's gradient, and when: chunks of keys are computed side by side, and added in their order.
#pragma once

#include "heed/base/thread_pool.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Flags [tiles, chunks] in memory that all threads of a unit share. Chunks are handed out in their order, so the one
/// that is waited for is always at work or through.
class tile_order {
 public:
  enum state : unsigned char { ahead, through, apart };  // apart: the chunk adds nothing to the tile

  /// `flags`: null where one thread takes all chunks in their order.
  tile_order(unsigned char* flags, index_t chunks, int* failed) noexcept
      : flags_(flags), chunks_(chunks), failed_(failed) {}

  void begin(index_t tile, index_t chunk, bool adds) const noexcept {
    if (flags_ != nullptr) flags_[tile * chunks_ + chunk] = adds ? ahead : apart;
  }

  /// Until the chunks before this one are through with the tile, or one of them has failed.
  void wait(index_t tile, index_t chunk) const noexcept {
    if (flags_ == nullptr || chunk == 0) return;
    unsigned char* before = flags_ + tile * chunks_ + chunk - 1;
    index_t left = chunk;
    while (left > 0 && __atomic_load_n(before, __ATOMIC_RELAXED) == apart) {
      --before;
      --left;
    }
    if (left == 0) return;
    const auto is_over = [&] {
      return __atomic_load_n(before, __ATOMIC_ACQUIRE) == through || __atomic_load_n(failed_, __ATOMIC_RELAXED) != 0;
    };
    while (!spin_until(is_over)) sched_yield();
  }

  void finish(index_t tile, index_t chunk) const noexcept {
    if (flags_ == nullptr) return;
    __atomic_store_n(flags_ + tile * chunks_ + chunk, static_cast<unsigned char>(through), __ATOMIC_RELEASE);
  }

  /// A chunk that an exception ends lets the others go.
  class scope {
   public:
    explicit scope(tile_order const& order) noexcept : order_(order) {}
    ~scope() {
      if (!is_complete_ && order_.failed_ != nullptr) __atomic_store_n(order_.failed_, 1, __ATOMIC_RELAXED);
    }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    void complete() noexcept { is_complete_ = true; }

   private:
    tile_order const& order_;
    bool is_complete_ = false;
  };

 private:
  unsigned char* flags_;
  index_t chunks_;
  int* failed_;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
