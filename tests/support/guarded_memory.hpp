// Memory between two pages that nobody may touch: a read or write one byte too far ends the test at once, also from
// inline assembly, which sanitizers do not see.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace heed::test {

class guarded_memory {
 public:
  enum class edge { front, back };

  guarded_memory() = default;
  /// `size` bytes of `fill` that end right before a forbidden page (back) or begin right behind one (front).
  guarded_memory(std::size_t size, edge tight, unsigned char fill) : size_(size) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (size + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    void* const base = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) std::abort();
    base_ = static_cast<unsigned char*>(base);
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner, page, PROT_NONE);
    begin_ = base_ + page + (tight == edge::back ? inner - size : 0);
    std::memset(begin_, fill, size);
  }
  guarded_memory(guarded_memory&& other) noexcept { swap(other); }
  guarded_memory& operator=(guarded_memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~guarded_memory() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }

  [[nodiscard]] unsigned char* data() const { return begin_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void swap(guarded_memory& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(begin_, other.begin_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
  }

  unsigned char* base_ = nullptr;
  unsigned char* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_ = 0;
};

/// Address space that is reserved and not committed: views with huge strides over it cost only the pages they touch.
class sparse_memory {
 public:
  explicit sparse_memory(std::size_t size) : size_(size) {
    void* const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = base == MAP_FAILED ? nullptr : base;
  }
  sparse_memory(sparse_memory const&) = delete;
  sparse_memory& operator=(sparse_memory const&) = delete;
  ~sparse_memory() {
    if (base_ != nullptr) munmap(base_, size_);
  }

  /// False where the system does not give that much address space; the test is then skipped.
  [[nodiscard]] bool reserved() const { return base_ != nullptr; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(base_);
  }

 private:
  void* base_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace heed::test
