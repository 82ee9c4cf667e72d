// The floating-point environment of the kernels, for the life of a scope.
#pragma once

#include <cstdint>

#include "heed/base/config.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// What decides how a thread rounds, and what it has noted about that; by default, what a program starts with.
struct fp_state {
#if defined(__x86_64__)
  unsigned control_and_flags = 0x1f80u;
#else
  std::uint64_t control = 0;
  std::uint64_t flags = 0;
#endif
};

[[nodiscard]] inline fp_state current_fp_state() noexcept {
  fp_state now;
#if defined(__x86_64__)
  now.control_and_flags = __builtin_ia32_stmxcsr();
#else
  asm volatile("mrs %0, fpcr" : "=r"(now.control));
  asm volatile("mrs %0, fpsr" : "=r"(now.flags));
#endif
  return now;
}

inline void set_fp_state(fp_state const& state) noexcept {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(state.control_and_flags);
#else
  asm volatile("msr fpcr, %0" : : "r"(state.control) : "memory");
  asm volatile("msr fpsr, %0" : : "r"(state.flags) : "memory");
#endif
}

/// Round to nearest, exceptions masked, subnormals flushed to 0 on the way in and out (an assist for each costs two
/// orders of magnitude). The caller's environment, its sticky flags included, comes back at the end of the scope.
class fp_environment {
 public:
#if defined(__x86_64__)
  fp_environment() noexcept : saved_(current_fp_state()) {
    if ((saved_.control_and_flags & ~sticky) != wanted.control_and_flags) set_fp_state(wanted);
  }
#else
  fp_environment() noexcept : saved_(current_fp_state()) {
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{1} << 24) : "memory");
  }
#endif
  /// Another environment than the kernels', for foreign code that they call.
  explicit fp_environment(fp_state const& other) noexcept : saved_(current_fp_state()) { set_fp_state(other); }
  ~fp_environment() { set_fp_state(saved_); }
  fp_environment(fp_environment const&) = delete;
  fp_environment& operator=(fp_environment const&) = delete;

  /// The environment outside the scope.
  [[nodiscard]] fp_state const& outside() const noexcept { return saved_; }

 private:
#if defined(__x86_64__)
  static constexpr fp_state wanted{0x9fc0u};
  static constexpr unsigned sticky = 0x3fu;  // flags
#endif
  fp_state saved_;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
