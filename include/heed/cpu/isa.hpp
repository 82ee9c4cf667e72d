// Which instruction set the kernels run on: found once per process, lowered by HEED_ISA.
#pragma once

#include <cstdlib>
#include <string_view>

#include "heed/base/report.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heed {
namespace detail {

/// The levels are named after the x86-64 micro-architecture levels; on aarch64 there is one.
enum class isa_level : int { v1, v3, v4, neon };

/// What HEED_ISA and the processor come to.
struct isa_choice {
  isa_level level;        // what runs
  isa_level highest;      // what the processor and the system offer
  bool fast_bf16_dot;     // v4 runs, and its bf16 dot product beats its float FMA
  errc problem;           // ok, unknown_isa, unavailable_isa
  char const* requested;  // the text of HEED_ISA, or null
};

inline namespace HEED_ABI {

[[nodiscard]] constexpr char const* isa_name(isa_level level) noexcept {
  switch (level) {
    case isa_level::v1: return "v1";
    case isa_level::v3: return "v3";
    case isa_level::v4: return "v4";
    default: return "neon";
  }
}

#if defined(__x86_64__)
[[nodiscard]] inline isa_level highest_isa() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return isa_level::v1;
  constexpr unsigned osxsave = 1u << 27, fma = 1u << 12, f16c = 1u << 29, avx = 1u << 28;
  if ((ecx & osxsave) == 0 || (ecx & fma) == 0 || (ecx & f16c) == 0 || (ecx & avx) == 0) return isa_level::v1;
  unsigned saved_low = 0, saved_high = 0;  // the registers that the system saves
  asm volatile("xgetbv" : "=a"(saved_low), "=d"(saved_high) : "c"(0));
  if ((saved_low & 0x6u) != 0x6u) return isa_level::v1;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return isa_level::v1;
  constexpr unsigned avx2 = 1u << 5, avx512 = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);
  if ((ebx & avx2) == 0) return isa_level::v1;
  return (ebx & avx512) == avx512 && (saved_low & 0xe6u) == 0xe6u ? isa_level::v4 : isa_level::v3;
}

/// Whether vdpbf16ps does twice the work of an FMA in the same time. Intel's processors have it at half the rate, so
/// the feature bit says nothing: AMD's do since Zen 4, the first to have it.
[[nodiscard]] inline bool has_fast_bf16_dot() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool amd = ebx == 0x68747541u && edx == 0x69746e65u && ecx == 0x444d4163u;  // "AuthenticAMD"
  constexpr unsigned avx512_bf16 = 1u << 5;
  return amd && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & avx512_bf16) != 0;
}
#else
[[nodiscard]] inline isa_level highest_isa() noexcept { return isa_level::neon; }
[[nodiscard]] inline bool has_fast_bf16_dot() noexcept { return false; }
#endif

[[nodiscard]] inline isa_choice choose_isa() noexcept {
  const isa_level highest = highest_isa();
  isa_choice choice{highest, highest, false, errc::ok, std::getenv("HEED_ISA")};
  choice.fast_bf16_dot = highest == isa_level::v4 && has_fast_bf16_dot();
  if (choice.requested == nullptr || choice.requested[0] == '\0') return choice;
  const std::string_view name = choice.requested;
  for (isa_level level : {isa_level::v1, isa_level::v3, isa_level::v4, isa_level::neon}) {
    if (name != isa_name(level)) continue;
    const bool has = level == highest || (highest != isa_level::neon && level < highest);
    choice.level = has ? level : highest;
    choice.fast_bf16_dot = choice.fast_bf16_dot && choice.level == isa_level::v4;
    choice.problem = has ? errc::ok : errc::unavailable_isa;
    return choice;
  }
  choice.problem = errc::unknown_isa;
  return choice;
}

/// Read once, at first use: cpuid costs microseconds in a virtual machine.
[[nodiscard]] inline isa_choice const& current_isa() noexcept {
  static const isa_choice choice = choose_isa();
  return choice;
}

[[nodiscard]] inline bool check_isa(report& broken) {
  isa_choice const& choice = current_isa();
  if (choice.problem == errc::ok) return true;
  char const* const allowed = choice.highest == isa_level::neon ? "neon"
                              : choice.highest == isa_level::v1 ? "v1"
                              : choice.highest == isa_level::v3 ? "v1, v3"
                                                                : "v1, v3, v4";
  return broken.fail(
      choice.problem, "the environment variable HEED_ISA is \"%s\", %s; this machine allows: %s", choice.requested,
      choice.problem == errc::unknown_isa ? "which names no level" : "a level this processor does not have", allowed);
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// The instruction set in use: "v1", "v3", "v4" (x86-64 levels) or "neon".
/// Throws: heed::error (unknown_isa, unavailable_isa) where HEED_ISA asks for what there is not.
[[nodiscard]] inline std::string_view active_isa() {
  std::string text;
  detail::report broken("heed::active_isa", &text);
  if (!detail::check_isa(broken)) detail::raise(broken.code(), text);
  return detail::isa_name(detail::current_isa().level);
}

}  // namespace HEED_ABI
}  // namespace heed
