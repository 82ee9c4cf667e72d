// The floating-point environment of the kernels, for the life of a scope.
#pragma once

#include <cstdint>

#include "heed/base/config.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Round to nearest, exceptions masked, subnormals flushed to 0 on the way in and out (an assist for each costs two
/// orders of magnitude). The caller's environment, its sticky flags included, comes back at the end of the scope.
class fp_environment {
 public:
#if defined(__x86_64__)
  fp_environment() noexcept : saved_(__builtin_ia32_stmxcsr()), changed_((saved_ & ~sticky) != wanted) {
    if (changed_) __builtin_ia32_ldmxcsr(wanted);
  }
  ~fp_environment() {
    if (changed_) __builtin_ia32_ldmxcsr(saved_);
  }
#else
  fp_environment() noexcept {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("mrs %0, fpsr" : "=r"(flags_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{1} << 24) : "memory");
  }
  ~fp_environment() {
    asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory");
    asm volatile("msr fpsr, %0" : : "r"(flags_) : "memory");
  }
#endif
  fp_environment(fp_environment const&) = delete;
  fp_environment& operator=(fp_environment const&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned wanted = 0x9fc0u;
  static constexpr unsigned sticky = 0x3fu;  // flags, which a scope inside of another one leaves to that
  unsigned saved_;
  bool changed_;
#else
  std::uint64_t saved_ = 0;
  std::uint64_t flags_ = 0;
#endif
};

}  // namespace HEED_ABI
}  // namespace heed::detail
