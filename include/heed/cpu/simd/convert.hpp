// One vector of elements of any type, widened to the accumulate type, and back, rounded once.
#pragma once

#include "heed/base/element.hpp"
#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

#if defined(__x86_64__) && defined(__clang__)
// Clang wants an instruction in a function that has its instruction set; its doors have it too, and inline these.
typedef short half_lanes_8 __attribute__((vector_size(16), may_alias, aligned(2)));
typedef short half_lanes_16 __attribute__((vector_size(32), may_alias, aligned(2)));
typedef float wide_lanes_8 __attribute__((vector_size(32), may_alias));
typedef float wide_lanes_16 __attribute__((vector_size(64), may_alias));
HEED_LEAF_V3 void widen_half_8(void* to, void const* from) noexcept {
  *static_cast<wide_lanes_8*>(to) = __builtin_ia32_vcvtph2ps256(*static_cast<half_lanes_8 const*>(from));
}
HEED_LEAF_V3 void narrow_half_8(void* to, void const* from) noexcept {
  *static_cast<half_lanes_8*>(to) = __builtin_ia32_vcvtps2ph256(*static_cast<wide_lanes_8 const*>(from), 0);
}
HEED_LEAF_V4 void widen_half_16(void* to, void const* from) noexcept {
  *static_cast<wide_lanes_16*>(to) =
      __builtin_ia32_vcvtph2ps512_mask(*static_cast<half_lanes_16 const*>(from), wide_lanes_16{}, 0xffff, 4);
}
HEED_LEAF_V4 void narrow_half_16(void* to, void const* from) noexcept {
  *static_cast<half_lanes_16*>(to) =
      __builtin_ia32_vcvtps2ph512_mask(*static_cast<wide_lanes_16 const*>(from), 0, half_lanes_16{}, 0xffff);
}
#endif

// What a processor with f16c does in one instruction: the same values as the integer arithmetic of `half`.
template <class Simd, class Element>
inline constexpr bool has_instruction =
#if defined(__x86_64__)
    std::is_same_v<Element, half>&& Simd::bytes >= 32 && sizeof(typename Simd::scalar) == 4;
#else
    false;
#endif

template <class Simd>
HEED_VERB void widen_half(typename Simd::vector& to, half const* from) noexcept {
#if defined(__x86_64__) && defined(__clang__)
  if constexpr (Simd::bytes == 64) {
    widen_half_16(&to, from);
  } else {
    widen_half_8(&to, from);
  }
#elif defined(__x86_64__)
  struct lanes {
    half element[Simd::lanes];
  };
  asm("vcvtph2ps %1, %0" : "=v"(to) : "m"(*reinterpret_cast<lanes const*>(from)));
#endif
}

template <class Simd>
HEED_VERB void narrow_half(half* to, typename Simd::vector const& from) noexcept {
#if defined(__x86_64__) && defined(__clang__)
  if constexpr (Simd::bytes == 64) {
    narrow_half_16(to, &from);
  } else {
    narrow_half_8(to, &from);
  }
#elif defined(__x86_64__)
  struct lanes {
    half element[Simd::lanes];
  };
  asm("vcvtps2ph $0, %1, %0" : "=m"(*reinterpret_cast<lanes*>(to)) : "v"(from));
#endif
}

// A bfloat16 is the upper half of a float.
template <class Simd>
HEED_VERB void widen_bfloat16(typename Simd::vector& to, bfloat16 const* from) noexcept {
#if defined(__x86_64__) && !defined(__clang__)
  // GCC widens in two halves.
  if constexpr (Simd::bytes == 64) {
    asm("vpmovzxwd %1, %0\n\tvpslld $16, %0, %0"
        : "=v"(to)
        : "m"(*reinterpret_cast<typename Simd::loose_shorts const*>(from)));
    return;
  }
#endif
  using integers = typename Simd::integers;
  const integers upper = __builtin_convertvector(*reinterpret_cast<typename Simd::loose_shorts const*>(from), integers)
                         << 16;
  to = reinterpret_cast<typename Simd::vector const&>(upper);
}

template <class Simd, class Element>
HEED_VERB void widen(typename Simd::vector& to, Element const* from) noexcept {
  using Real = typename Simd::scalar;
  if constexpr (std::is_same_v<Element, Real>) {
    Simd::load_unaligned(to, from);
  } else if constexpr (has_instruction<Simd, Element>) {
    widen_half<Simd>(to, from);
  } else if constexpr (std::is_same_v<Element, bfloat16> && sizeof(Real) == 4) {
    widen_bfloat16<Simd>(to, from);
  } else {
    Real wide[std::size_t{Simd::lanes}];  // a loop of a known length, which the compilers turn into vectors
    for (int lane = 0; lane < Simd::lanes; ++lane) wide[lane] = static_cast<Real>(from[lane]);
    Simd::load_unaligned(to, wide);
  }
}

template <class Simd, class Element>
HEED_VERB void narrow(Element* to, typename Simd::vector const& from) noexcept {
  using Real = typename Simd::scalar;
  if constexpr (std::is_same_v<Element, Real>) {
    Simd::store_unaligned(to, from);
  } else if constexpr (has_instruction<Simd, Element>) {
    narrow_half<Simd>(to, from);
  } else {
    Real wide[std::size_t{Simd::lanes}];
    Simd::store_unaligned(wide, from);
    for (int lane = 0; lane < Simd::lanes; ++lane) to[lane] = static_cast<Element>(wide[lane]);
  }
}

}  // namespace heed::detail
