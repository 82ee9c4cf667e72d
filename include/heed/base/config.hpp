// What the headers need from the compiler, and the only room in which HEED_ macros are made.
#pragma once

#include "heed/version.hpp"

#if defined(_MSC_VER) && !defined(__clang__)
#error \
    "heed needs GCC 12 or later, or Clang 14 or later: MSVC has neither vector extensions nor target attributes. On Windows use clang++ or MinGW."
#elif !defined(__GNUC__)
#error "heed needs GCC 12 or later, or Clang 14 or later."
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "heed needs a little-endian target (x86-64 or aarch64)."
#elif !defined(__LP64__)
#error \
    "heed needs a 64-bit target (x86-64 or aarch64 on a Unix-like system): its index arithmetic is 64-bit throughout."
#elif !defined(__x86_64__) && !defined(__aarch64__)
#error "heed runs on x86-64 and aarch64."
#elif __cplusplus < 202002L
#error "heed needs C++20: compile with -std=c++20 or later."
#elif defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0) || \
    defined(__ASSOCIATIVE_MATH__)
#error \
    "heed relies on infinities, NaN and exact rounding: compile the files that include it without -ffast-math and -Ofast (heed does not need them to be fast)."
#endif

// Code that host and device share: masks, views, plain arithmetic. These types are the same in every translation unit
// of a program, whatever its -march, so their functions are always inlined: the linker must never keep one unit's AVX
// copy of them for the others.
#if defined(__CUDACC__)
#define HEED_FN __host__ __device__ __forceinline__
#else
#define HEED_FN [[gnu::always_inline]] inline
#endif

// The same for such types' host-only code.
#define HEED_INLINE [[gnu::always_inline]] inline

// Everything that runs a kernel lives in an inline namespace that is named after the instruction sets its translation
// unit may use, so that units with different -march flags never share a function.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define HEED_ABI_VECTOR avx512
#elif defined(__AVX512F__)
#define HEED_ABI_VECTOR avx512f
#elif defined(__AVX2__)
#define HEED_ABI_VECTOR avx2
#elif defined(__AVX__)
#define HEED_ABI_VECTOR avx
#elif defined(__SSE4_2__)
#define HEED_ABI_VECTOR sse42
#elif defined(__SSE4_1__)
#define HEED_ABI_VECTOR sse41
#elif defined(__SSSE3__)
#define HEED_ABI_VECTOR ssse3
#elif defined(__SSE3__)
#define HEED_ABI_VECTOR sse3
#elif defined(__ARM_FEATURE_SVE)
#define HEED_ABI_VECTOR sve
#else
#define HEED_ABI_VECTOR base
#endif
#if defined(__FMA__)
#define HEED_ABI_FMA _fma
#else
#define HEED_ABI_FMA
#endif
#if defined(__BMI2__)
#define HEED_ABI_BITS _bmi2
#elif defined(__BMI__)
#define HEED_ABI_BITS _bmi
#elif defined(__ARM_FEATURE_ATOMICS)
#define HEED_ABI_BITS _lse
#else
#define HEED_ABI_BITS
#endif
#if defined(__AVX512FP16__) || defined(__AVX512BF16__)
#define HEED_ABI_MORE _new
#elif defined(__LZCNT__) || defined(__MOVBE__)
#define HEED_ABI_MORE _lzcnt
#else
#define HEED_ABI_MORE
#endif
#define HEED_ABI_JOIN_(major, minor, vector, fma, bits, more) v##major##_##minor##_##vector##fma##bits##more
#define HEED_ABI_JOIN(major, minor, vector, fma, bits, more) HEED_ABI_JOIN_(major, minor, vector, fma, bits, more)
#define HEED_ABI \
  HEED_ABI_JOIN(HEED_VERSION_MAJOR, HEED_VERSION_MINOR, HEED_ABI_VECTOR, HEED_ABI_FMA, HEED_ABI_BITS, HEED_ABI_MORE)

// The bodies of the block verbs: inlined into their doors, at every optimisation level.
#define HEED_VERB [[gnu::always_inline]] inline

// The doors: the target attribute lifts everything that is inlined into them to one instruction set. One unknown word
// in a target string drops the whole attribute without a warning; tests/unit/doors finds that out by disassembly. Each
// begins with a line of its own: where their loops lie in it is worth up to a fifth of their speed, and must not be the
// linker's choice.
#define HEED_DOOR_V1 [[gnu::noinline, gnu::flatten, gnu::aligned(64)]] inline
#define HEED_DOOR_V3 [[gnu::noinline, gnu::flatten, gnu::aligned(64), gnu::target("avx2,fma,f16c")]] inline
#define HEED_DOOR_V4 \
  [[gnu::noinline, gnu::flatten, gnu::aligned(64), gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")]] inline
#define HEED_DOOR_V4_BF16                          \
  [[gnu::noinline, gnu::flatten, gnu::aligned(64), \
    gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c")]] inline
// A single instruction that vector extensions cannot say, for a compiler that wants it in a function with its set.
#define HEED_LEAF_V3 [[gnu::target("avx2,fma,f16c")]] inline
#define HEED_LEAF_V4 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c")]] inline
#define HEED_LEAF_V4_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c")]] inline

// Loops over the accumulators of a register tile: unless every one of them is unrolled, the tile lives on the stack.
#define HEED_UNROLL _Pragma("GCC unroll 16")
#define HEED_UNROLL_4 _Pragma("GCC unroll 4")
#define HEED_UNROLL_8 _Pragma("GCC unroll 8")

#if defined(__cpp_exceptions)
#define HEED_EXCEPTIONS 1
#else
#define HEED_EXCEPTIONS 0
#endif

// GCC 12 for aarch64 defines __FLT16_MAX__ although its C++ has no _Float16 yet.
#if defined(__FLT16_MAX__) && (defined(__x86_64__) || defined(__clang__) || __GNUC__ >= 13)
#define HEED_NATIVE_FLOAT16 1
#else
#define HEED_NATIVE_FLOAT16 0
#endif
