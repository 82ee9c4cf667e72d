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

/// What multiplies bfloat16 faster than the float FMA: nothing, the dot product of pairs in vectors, or that of tiles.
enum class bf16_unit : int { none, pairs, tiles };

/// What HEED_ISA and the processor come to.
struct isa_choice {
  isa_level level;        // what runs
  isa_level highest;      // what the processor and the system offer
  bf16_unit fast_bf16;    // of v4; tiles may still be refused by the system
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

/// AMD's, whose caches and units differ from Intel's where no feature bit tells.
[[nodiscard]] inline bool is_amd() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return ebx == 0x68747541u && edx == 0x69746e65u && ecx == 0x444d4163u;  // "AuthenticAMD"
}

/// Whether vdpbf16ps does twice the work of an FMA in the same time. Intel's processors have it at half the rate, so
/// the feature bit says nothing: AMD's do since Zen 4, the first to have it. Intel's have tiles (AMX) instead, at
/// sixteen times the rate, since Sapphire Rapids; virtual machines may hide them. Where v4 is the highest level.
[[nodiscard]] inline bf16_unit fast_bf16_unit() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned avx512_bf16 = 1u << 5;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & avx512_bf16) == 0) return bf16_unit::none;
  if (is_amd()) return bf16_unit::pairs;
  constexpr unsigned amx = (1u << 22) | (1u << 24);  // bf16, tile
  constexpr unsigned tile_state = (1u << 17) | (1u << 18);
  unsigned saved_low = 0, saved_high = 0;
  asm volatile("xgetbv" : "=a"(saved_low), "=d"(saved_high) : "c"(0));
  const bool has_tiles = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & amx) == amx;
  return has_tiles && (saved_low & tile_state) == tile_state ? bf16_unit::tiles : bf16_unit::none;
}

/// Linux gives tiles to a process that asks for them, to all of its threads and for good: 8 KB more in the state of a
/// thread that has used them. It refuses where the alternate stack of a signal handler is too small for that.
[[nodiscard]] inline bool ask_for_tiles() noexcept {
#if defined(__linux__)
  constexpr long arch_prctl = 158, request_state = 0x1023, tile_data = 18;
  long result = arch_prctl;
  asm volatile("syscall" : "+a"(result) : "D"(request_state), "S"(tile_data) : "rcx", "r11", "memory");
  return result == 0;
#else
  return false;
#endif
}
#else
[[nodiscard]] inline isa_level highest_isa() noexcept { return isa_level::neon; }
[[nodiscard]] inline bf16_unit fast_bf16_unit() noexcept { return bf16_unit::none; }
[[nodiscard]] inline bool ask_for_tiles() noexcept { return false; }
#endif

[[nodiscard]] inline isa_choice choose_isa() noexcept {
  const isa_level highest = highest_isa();
  isa_choice choice{highest, highest, bf16_unit::none, errc::ok, std::getenv("HEED_ISA")};
  if (highest == isa_level::v4) choice.fast_bf16 = fast_bf16_unit();
  if (choice.requested == nullptr || choice.requested[0] == '\0') return choice;
  const std::string_view name = choice.requested;
  for (isa_level level : {isa_level::v1, isa_level::v3, isa_level::v4, isa_level::neon}) {
    if (name != isa_name(level)) continue;
    const bool has = level == highest || (highest != isa_level::neon && level < highest);
    choice.level = has ? level : highest;
    if (choice.level != isa_level::v4) choice.fast_bf16 = bf16_unit::none;
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

/// What may multiply bfloat16. Tiles are asked for when the first call comes that could use them: what a program does
/// not use should not change it.
[[nodiscard]] inline bf16_unit current_bf16_unit() noexcept {
  if (current_isa().fast_bf16 != bf16_unit::tiles) return current_isa().fast_bf16;
  static const bool granted = ask_for_tiles();
  return granted ? bf16_unit::tiles : bf16_unit::none;
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
