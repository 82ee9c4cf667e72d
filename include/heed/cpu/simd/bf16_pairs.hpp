// Vectors of pairs of bfloat16, for processors whose bf16 dot product is faster than their float FMA.
#pragma once

#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

#if defined(__x86_64__) && defined(__clang__)
// Clang wants the instruction in a function that has the instruction set; its doors have it too, and inline these.
typedef float bf16_dot_lanes __attribute__((vector_size(64), may_alias));
HEED_LEAF_V4_BF16 void bf16_dot(void* sum, void const* factor, void const* at) noexcept {
  typedef int words __attribute__((vector_size(64), may_alias));
  auto& to = *static_cast<bf16_dot_lanes*>(sum);
  to = __builtin_ia32_dpbf16ps_512(to, *static_cast<words const*>(factor), *static_cast<words const*>(at));
}
HEED_LEAF_V4_BF16 void bf16_round(void* to, void const* low, void const* high) noexcept {
  *static_cast<decltype(__builtin_ia32_cvtne2ps2bf16_512(bf16_dot_lanes{}, bf16_dot_lanes{}))*>(to) =
      __builtin_ia32_cvtne2ps2bf16_512(*static_cast<bf16_dot_lanes const*>(high),
                                       *static_cast<bf16_dot_lanes const*>(low));
}
#endif

/// Sixteen words, each two bfloat16 (the lower half first): what multiplies. What is summed are sixteen floats.
struct bf16_pairs : simd<float, 16> {
  static constexpr int elements_per_word = 2;
  typedef std::int16_t shorts __attribute__((vector_size(64), may_alias));
  typedef std::uint32_t bits __attribute__((vector_size(64), may_alias));

  /// sum += factor.low * at.low + factor.high * at.high.
  HEED_VERB static void multiply_add(vector& sum, vector const& factor, vector const& at) noexcept {
#if defined(__clang__)
    bf16_dot(&sum, &factor, &at);
#else
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(factor), "v"(at));
#endif
  }

  /// sum += words.low + words.high.
  HEED_VERB static void add_pair(vector& sum, vector const& words) noexcept {
    const integers ones = integers{} + 0x3f803f80;
    multiply_add(sum, reinterpret_cast<vector const&>(ones), words);
  }

  /// The sixteen of `first`, then those of `second`, each rounded to bfloat16, to nearest even; NaN stays NaN.
  HEED_VERB static void round_rows(shorts& halves, vector const& first, vector const& second) noexcept {
#if defined(__clang__)
    bf16_round(&halves, &first, &second);
#else
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(first), "v"(second));
#endif
  }

  /// Words (low, high), each rounded the same way.
  HEED_VERB static void round_pair(vector& words, vector const& low, vector const& high) noexcept {
    shorts halves;
    round_rows(halves, low, high);
    const shorts pairs = __builtin_shufflevector(halves, halves, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
                                                 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    words = reinterpret_cast<vector const&>(pairs);
  }
};

}  // namespace heed::detail
