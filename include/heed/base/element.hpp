// Element types: half and bfloat16, what counts as an element, and exact conversions between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heed/base/config.hpp"
#include "heed/base/index.hpp"

namespace heed {

/// How an element is stored. Types with the same bits (heed::half, _Float16, Eigen::half) share one.
enum class element_kind : unsigned char { float16, bfloat16, float32, float64, boolean, none };

namespace detail {

// The builtin rather than std::bit_cast, which without optimisation is a function of its own.
// Plain integer arithmetic: no rounding mode, no flushing of subnormals, the same bits on every compiler, and loops
// over them vectorise.
[[nodiscard]] HEED_FN constexpr float half_bits_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  // Normal numbers only change the bias of their exponent; infinities and NaN move to the top of the range.
  const std::uint32_t normal = rest + (rest >= 0x0f800000u ? 0x70000000u : 0x38000000u);
  // A subnormal m * 2^-24 is the low bits of 0.5 + m * 2^-24.
  const float subnormal = __builtin_bit_cast(float, 0x3f000000u | (rest >> 13)) - 0.5f;
  const std::uint32_t magnitude = rest < 0x00800000u ? __builtin_bit_cast(std::uint32_t, subnormal) : normal;
  return __builtin_bit_cast(float, sign | magnitude);
}

// Round to nearest, ties to even; what is too large becomes infinite; NaN stays NaN.
[[nodiscard]] HEED_FN constexpr std::uint16_t float_to_half_bits(float value) noexcept {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (rest >= 0x38800000u) {  // normal; a carry out of the mantissa rightly raises the exponent, up to infinity
    return static_cast<std::uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13));
  }
  if (rest < 0x33000000u) return static_cast<std::uint16_t>(sign);  // below half of the smallest subnormal
  const std::uint32_t shift = 126u - (rest >> 23);
  const std::uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t lost = mantissa & ((1u << shift) - 1u);
  const std::uint32_t middle = 1u << (shift - 1u);
  return static_cast<std::uint16_t>(sign | (kept + (lost > middle || (lost == middle && (kept & 1u)) ? 1u : 0u)));
}

[[nodiscard]] HEED_FN constexpr float bfloat16_bits_to_float(std::uint16_t bits) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard]] HEED_FN constexpr std::uint16_t float_to_bfloat16_bits(float value) noexcept {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// double -> float rounded to odd: a second rounding, to a narrower type, then gives what one rounding would have given.
[[nodiscard]] HEED_FN constexpr float double_to_odd_float(double value) noexcept {
  const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000u;
  const std::uint64_t rest = bits & 0x7fffffffffffffffu;
  if (rest >= 0x7ff0000000000000u) {
    return __builtin_bit_cast(float, sign | 0x7f800000u | (rest > 0x7ff0000000000000u ? 0x400000u : 0u));
  }
  if (rest < 0x3690000000000000u) return __builtin_bit_cast(float, sign | (rest != 0 ? 1u : 0u));
  if (rest >= 0x47f0000000000000u) return __builtin_bit_cast(float, sign | 0x7f7fffffu);
  const std::uint32_t exponent = static_cast<std::uint32_t>(rest >> 52);
  const std::uint64_t mantissa = (rest & 0xfffffffffffffu) | 0x10000000000000u;
  const std::uint32_t shift = exponent >= 897u ? 29u : 29u + (897u - exponent);
  const std::uint64_t lost = mantissa & ((std::uint64_t{1} << shift) - 1u);
  const std::uint32_t kept = static_cast<std::uint32_t>(mantissa >> shift) | (lost != 0 ? 1u : 0u);
  return __builtin_bit_cast(float, sign | (exponent >= 897u ? ((exponent - 896u) << 23) + (kept - 0x800000u) : kept));
}

}  // namespace detail

/// IEEE binary16, 2 bytes, the same on every compiler; explicit from float (nearest even), implicit to float.
struct half {
  std::uint16_t bits;

  half() = default;
  HEED_FN constexpr explicit half(float value) noexcept : bits(detail::float_to_half_bits(value)) {}
  HEED_FN constexpr explicit half(double value) noexcept
      : bits(detail::float_to_half_bits(detail::double_to_odd_float(value))) {}
  HEED_FN constexpr explicit half(int value) noexcept : half(static_cast<double>(value)) {}
  HEED_FN constexpr operator float() const noexcept { return detail::half_bits_to_float(bits); }

  [[nodiscard]] HEED_FN static constexpr half from_bits(std::uint16_t bits) noexcept {
    half value{};
    value.bits = bits;
    return value;
  }
};

/// bfloat16: the upper half of a float, 2 bytes; explicit from float (nearest even), implicit to float.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  HEED_FN constexpr explicit bfloat16(float value) noexcept : bits(detail::float_to_bfloat16_bits(value)) {}
  HEED_FN constexpr explicit bfloat16(double value) noexcept
      : bits(detail::float_to_bfloat16_bits(detail::double_to_odd_float(value))) {}
  HEED_FN constexpr explicit bfloat16(int value) noexcept : bfloat16(static_cast<double>(value)) {}
  HEED_FN constexpr operator float() const noexcept { return detail::bfloat16_bits_to_float(bits); }

  [[nodiscard]] HEED_FN static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 value{};
    value.bits = bits;
    return value;
  }
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);

/// The kind of an element type; `none` for every other type. A header that brings types of its own specialises it.
template <class Element>
inline constexpr element_kind element_kind_of = element_kind::none;
template <class Element>
inline constexpr element_kind element_kind_of<Element const> = element_kind_of<Element>;
template <>
inline constexpr element_kind element_kind_of<half> = element_kind::float16;
template <>
inline constexpr element_kind element_kind_of<bfloat16> = element_kind::bfloat16;
template <>
inline constexpr element_kind element_kind_of<float> = element_kind::float32;
template <>
inline constexpr element_kind element_kind_of<double> = element_kind::float64;
template <>
inline constexpr element_kind element_kind_of<bool> = element_kind::boolean;
#if HEED_NATIVE_FLOAT16
__extension__ typedef _Float16 native_float16;  // std::float16_t is this type where it exists
template <>
inline constexpr element_kind element_kind_of<native_float16> = element_kind::float16;
#endif
#if defined(__STDCPP_BFLOAT16_T__)
template <>
inline constexpr element_kind element_kind_of<decltype(0.0bf16)> = element_kind::bfloat16;
#endif

/// An element of query, key, value and out.
template <class Element>
concept floating_element = element_kind_of<Element>
!= element_kind::none&& element_kind_of<Element> != element_kind::boolean;

namespace detail {

[[nodiscard]] HEED_FN constexpr index_t element_size(element_kind kind) noexcept {
  switch (kind) {
    case element_kind::float16:
    case element_kind::bfloat16: return 2;
    case element_kind::float32: return 4;
    case element_kind::float64: return 8;
    default: return 1;
  }
}

[[nodiscard]] HEED_FN constexpr char const* element_name(element_kind kind) noexcept {
  switch (kind) {
    case element_kind::float16: return "float16";
    case element_kind::bfloat16: return "bfloat16";
    case element_kind::float32: return "float32";
    case element_kind::float64: return "float64";
    case element_kind::boolean: return "bool";
    default: return "none";
  }
}

/// Calls `visit` with a value of the storage type of a floating kind: one switch for every place that reads or writes.
template <class Visitor>
[[gnu::always_inline]] constexpr void with_element(element_kind kind, Visitor const& visit) {
  switch (kind) {
    case element_kind::float16: return visit(half{});
    case element_kind::bfloat16: return visit(bfloat16{});
    case element_kind::float64: return visit(double{});
    default: return visit(float{});
  }
}

}  // namespace detail
}  // namespace heed
