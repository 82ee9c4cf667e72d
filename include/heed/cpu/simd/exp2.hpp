// 2^x for x <= 0, the one exponential of the kernels.
#pragma once

#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

// Polynomials p(f) = 2^f with p(0) exactly 1, minimax in relative error (own Remez runs).
template <class Real>
struct exp2_polynomial;
template <>
struct exp2_polynomial<float> {  // f in [-1/2, 1/2], 2.0e-9
  static constexpr int degree = 6;
  static constexpr float terms[] = {1.0f,           0.69314720286f, 0.24022647914f, 0.055503324712f,
                                    0.00961843736f, 0.00133988744f, 0.00015353362f};
};
template <>
struct exp2_polynomial<double> {  // f in [-1/2, 1/2], 3.4e-18
  static constexpr int degree = 11;
  static constexpr double terms[] = {1.0,
                                     0.6931471805599453258,
                                     0.2402265069591013126,
                                     0.05550410866482008323,
                                     0.00961812910759412009,
                                     0.001333355814677462052,
                                     0.0001540353045711209086,
                                     0.00001525273349312748935,
                                     1.3215435282308488e-6,
                                     1.017819957184213797e-7,
                                     7.073783248503133299e-9,
                                     4.434771298200376708e-10};
};
struct exp2_floor_polynomial {  // f in [0, 1), 2.0e-9
  static constexpr int degree = 6;
  static constexpr float terms[] = {1.0f,           0.69314704444f, 0.24022930555f, 0.055485280620f,
                                    0.00967545157f, 0.00124678465f, 0.00021612915f};
};
struct exp2_short_polynomial {  // f in [0, 1), 8.2e-8: for what is rounded to bfloat16
  static constexpr int degree = 5;
  static constexpr float terms[] = {1.0f, 0.6931513f, 0.24016444f, 0.055799913f, 0.009017031f, 0.00186713f};
};

template <class Polynomial, class Vector>
HEED_VERB void horner(Vector& to, Vector const& at) noexcept {
  Vector sum = Polynomial::terms[Polynomial::degree - 1] + Polynomial::terms[Polynomial::degree] * at;
  HEED_UNROLL
  for (int term = Polynomial::degree - 2; term >= 0; --term) sum = Polynomial::terms[term] + sum * at;
  to = sum;
}

#if defined(__x86_64__) && defined(__clang__)
// Clang wants an instruction in a function that has its instruction set; its doors have it too, and inline these.
typedef float exp2_lanes __attribute__((vector_size(64), may_alias));
typedef double exp2_wide_lanes __attribute__((vector_size(64), may_alias));
HEED_LEAF_V4 void fraction_of(float, void* to, void const* from) noexcept {
  *static_cast<exp2_lanes*>(to) =
      __builtin_ia32_reduceps512_mask(*static_cast<exp2_lanes const*>(from), 9, exp2_lanes{}, 0xffff, 4);
}
HEED_LEAF_V4 void fraction_of(double, void* to, void const* from) noexcept {
  *static_cast<exp2_wide_lanes*>(to) =
      __builtin_ia32_reducepd512_mask(*static_cast<exp2_wide_lanes const*>(from), 8, exp2_wide_lanes{}, 0xff, 4);
}
HEED_LEAF_V4 void times_power_of_2(float, void* to, void const* factor, void const* exponent) noexcept {
  *static_cast<exp2_lanes*>(to) = __builtin_ia32_scalefps512_mask(
      *static_cast<exp2_lanes const*>(factor), *static_cast<exp2_lanes const*>(exponent), exp2_lanes{}, 0xffff, 4);
}
HEED_LEAF_V4 void times_power_of_2(double, void* to, void const* factor, void const* exponent) noexcept {
  *static_cast<exp2_wide_lanes*>(to) =
      __builtin_ia32_scalefpd512_mask(*static_cast<exp2_wide_lanes const*>(factor),
                                      *static_cast<exp2_wide_lanes const*>(exponent), exp2_wide_lanes{}, 0xff, 4);
}
#endif

#if defined(__x86_64__)
// What AVX-512 has one instruction for: of each lane what floor (float) or the nearest integer (double) leaves, and
// factor * 2^floor(exponent). Both take -inf and NaN as they should.
template <class Simd>
HEED_VERB void fraction_of(typename Simd::vector& to, typename Simd::vector const& from) noexcept {
#if defined(__clang__)
  fraction_of(typename Simd::scalar{}, &to, &from);
#else
  if constexpr (sizeof(typename Simd::scalar) == 4) {
    asm("vreduceps $9, %1, %0" : "=v"(to) : "v"(from));
  } else {
    asm("vreducepd $8, %1, %0" : "=v"(to) : "v"(from));
  }
#endif
}
template <class Simd>
HEED_VERB void times_power_of_2(typename Simd::vector& to, typename Simd::vector const& factor,
                                typename Simd::vector const& exponent) noexcept {
#if defined(__clang__)
  times_power_of_2(typename Simd::scalar{}, &to, &factor, &exponent);
#else
  if constexpr (sizeof(typename Simd::scalar) == 4) {
    asm("vscalefps %2, %1, %0" : "=v"(to) : "v"(factor), "v"(exponent));
  } else {
    asm("vscalefpd %2, %1, %0" : "=v"(to) : "v"(factor), "v"(exponent));
  }
#endif
}
#endif

/// 2^x for x <= 0 or NaN: within 1.5 ulp (3 where it becomes a pair of bfloat16); exactly 1 at 0; exactly 0 at -inf and
/// below the normal range; NaN for NaN. Needs round to nearest.
template <class Simd>
HEED_VERB void exp2(typename Simd::vector& to, typename Simd::vector const& exponent) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  using integers = typename Simd::integers;
#if defined(__x86_64__)
  if constexpr (Simd::bytes == 64) {
    vector fraction, power;
    fraction_of<Simd>(fraction, exponent);
    if constexpr (sizeof(Real) == 4) {
      using polynomial = std::conditional_t<Simd::elements_per_word == 1, exp2_floor_polynomial, exp2_short_polynomial>;
      horner<polynomial>(power, fraction);
      times_power_of_2<Simd>(to, power, exponent);
    } else {
      horner<exp2_polynomial<double>>(power, fraction);
      times_power_of_2<Simd>(to, power, exponent - fraction);
    }
    return;
  }
#endif
  // Adding `magic` leaves the rounded exponent, already biased, in the low bits of the sum. Clamped so that the
  // smallest one gives the bits of +0: what underflows, and -inf, becomes exactly 0. The power of two is multiplied in
  // rather than added to the exponent bits: a NaN then stays one.
  constexpr Real bias = sizeof(Real) == 4 ? Real(127) : Real(1023);
  constexpr Real magic = (sizeof(Real) == 4 ? Real(12582912) : Real(6755399441055744)) + bias;
  const vector least = vector{} - bias;
  vector clamped, power;
  Simd::larger(clamped, least, exponent);
  const vector sum = clamped + magic;
  const vector fraction = clamped - (sum - magic);
  horner<exp2_polynomial<Real>>(power, fraction);
  const integers scale = reinterpret_cast<integers const&>(sum) << (sizeof(Real) == 4 ? 23 : 52);
  to = power * reinterpret_cast<vector const&>(scale);
}

}  // namespace heed::detail
