// Memory that a thread keeps from call to call, so that a steady state allocates nothing.
#pragma once

#include <cstddef>
#include <new>

#include "heed/base/config.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// A thread keeps one block for each use: for the item of work at hand, for what all items of its call share, and for
/// what the rule of its call reads.
enum class scratch_use : int { tiles, shared, rule };

/// 64-byte aligned bytes for one scope. The calling thread's own block is used, and grown where it is too small; a call
/// inside a call (a user's functor that calls attention) gets a block for itself.
class scratch {
 public:
  explicit scratch(std::size_t bytes, scratch_use use = scratch_use::tiles)
      : kept_(kept(use)), from_(kept_.taken ? own_ : kept_) {
    if (from_.size < bytes) {
      from_.release();
      from_.data = static_cast<char*>(::operator new (bytes, std::align_val_t{64}));
      from_.size = bytes;
    }
    from_.taken = true;
  }
  ~scratch() {
    from_.taken = false;
    own_.release();
  }
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;

  [[nodiscard]] char* data() const noexcept { return from_.data; }

 private:
  struct block {
    char* data = nullptr;
    std::size_t size = 0;
    bool taken = false;

    void release() noexcept {
      if (data != nullptr) ::operator delete (data, std::align_val_t{64});
      data = nullptr;
      size = 0;
    }
  };
  // Frees the blocks when the thread ends. The blocks themselves have no destructor and outlive this: a call from a
  // static destructor or an atexit handler finds them empty, not gone.
  struct releaser {
    block* owned;
    ~releaser() {
      owned[0].release();
      owned[1].release();
      owned[2].release();
    }
  };
  static block& kept(scratch_use use) noexcept {
    static thread_local block mine[3];
    static thread_local const releaser at_thread_end{mine};
    (void)at_thread_end;
    return mine[static_cast<int>(use)];
  }

  block& kept_;  // of the thread
  block own_;    // of this scope
  block& from_;  // the one that is used
};

/// Hands out aligned pieces of a block; run over a null block it only counts.
class carver {
 public:
  explicit carver(char* data) noexcept : data_(data) {}

  template <class Element>
  [[nodiscard]] Element* take(std::size_t count) noexcept {
    Element* const piece = data_ == nullptr ? nullptr : reinterpret_cast<Element*>(data_ + used_);
    used_ += (count * sizeof(Element) + 63) / 64 * 64;
    return piece;
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  char* data_;
  std::size_t used_ = 0;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
