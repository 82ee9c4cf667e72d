// The vector type of the verbs and its few operations. Everything here is inlined into a door, which decides the
// instruction set; vectors are passed by reference and never cross a function call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "heed/base/config.hpp"

namespace heed::detail {

/// `Lanes` numbers of type Real, one for each query row.
template <class Real, int Lanes>
struct simd {
  static_assert(std::is_same_v<Real, float> || std::is_same_v<Real, double>);
  using scalar = Real;
  using integer = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
  static constexpr int lanes = Lanes;
  static constexpr int bytes = Lanes * static_cast<int>(sizeof(Real));
  typedef Real vector __attribute__((vector_size(bytes), may_alias));
  typedef Real loose_vector __attribute__((vector_size(bytes), may_alias, aligned(alignof(Real))));
  typedef std::uint16_t loose_shorts __attribute__((vector_size(Lanes * 2), may_alias, aligned(2)));
  typedef integer integers __attribute__((vector_size(bytes), may_alias));

  /// Keys, or head dimensions, that one word of a tile holds: one here, two in bf16_pairs.
  static constexpr int elements_per_word = 1;
  /// Words of a row that are multiplied in one step: sixteen in bf16_tiles.
  static constexpr int words_per_line = 1;
  /// Neighbouring lanes that a query row has, each for a column of head_dim: two in column_pairs.
  static constexpr int columns_per_lane = 1;
  /// One number for each query row.
  using rows = simd;
  /// What is transposed as one.
  using squares = simd;

  /// sum += factor * at.
  HEED_VERB static void multiply_add(vector& sum, vector const& factor, vector const& at) noexcept {
    sum += factor * at;
  }

  /// Scratch tiles are aligned to whole vectors.
  HEED_VERB static void load(vector& to, Real const* from) noexcept { to = *reinterpret_cast<vector const*>(from); }
  HEED_VERB static void store(Real* to, vector const& from) noexcept { *reinterpret_cast<vector*>(to) = from; }

  /// One number for each query row, in all lanes of the row.
  HEED_VERB static void load_rows(vector& to, Real const* from) noexcept { load(to, from); }
  /// The sum over the columns of each row.
  HEED_VERB static void add_columns(vector& to, vector const& sum) noexcept { to = sum; }

  /// The caller's memory is aligned to its elements only.
  HEED_VERB static void load_unaligned(vector& to, Real const* from) noexcept {
    to = *reinterpret_cast<loose_vector const*>(from);
  }
  HEED_VERB static void store_unaligned(Real* to, vector const& from) noexcept {
    *reinterpret_cast<loose_vector*>(to) = from;
  }

  /// All lanes = *from. Written as asm on GCC, which otherwise turns the splat into shuffles (15 % of the peak is
  /// left); GCC lets the asm stand in a function without the instruction set as long as its door has it, clang does
  /// not.
  HEED_VERB static void splat(vector& to, Real const* from) noexcept {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (bytes == 64 && sizeof(Real) == 4) {
      asm("vbroadcastss %1, %0" : "=v"(to) : "m"(*from));
    } else if constexpr (bytes == 64) {
      asm("vbroadcastsd %1, %0" : "=v"(to) : "m"(*from));
    } else if constexpr (bytes == 32 && sizeof(Real) == 4) {
      asm("vbroadcastss %1, %0" : "=x"(to) : "m"(*from));
    } else if constexpr (bytes == 32) {
      asm("vbroadcastsd %1, %0" : "=x"(to) : "m"(*from));
    } else {
      to = *from - vector{};
    }
#else
    to = *from - vector{};
#endif
  }

  /// Whether every lane is 0 with a plus sign. By words: lanes that are compared one by one take longer.
  [[nodiscard]] HEED_VERB static bool is_zero(vector const& all) noexcept {
    std::uint64_t words[std::size_t{bytes / 8}], bits = 0;
    __builtin_memcpy(words, &all, sizeof words);
    HEED_UNROLL
    for (int i = 0; i < bytes / 8; ++i) bits |= words[i];
    return bits == 0;
  }

  /// The larger of each lane; `second` where either is NaN, so that the operand whose NaN must live stands second.
  HEED_VERB static void larger(vector& to, vector const& first, vector const& second) noexcept {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (bytes == 64 && sizeof(Real) == 4) {
      asm("vmaxps %2, %1, %0" : "=v"(to) : "v"(first), "v"(second));
    } else if constexpr (bytes == 64) {
      asm("vmaxpd %2, %1, %0" : "=v"(to) : "v"(first), "v"(second));
    } else if constexpr (bytes == 32 && sizeof(Real) == 4) {
      asm("vmaxps %2, %1, %0" : "=x"(to) : "x"(first), "x"(second));
    } else if constexpr (bytes == 32) {
      asm("vmaxpd %2, %1, %0" : "=x"(to) : "x"(first), "x"(second));
    } else {
      to = first > second ? first : second;
    }
#else
    to = first > second ? first : second;
#endif
  }
};

template <class Real>
inline constexpr Real infinity = Real(__builtin_inff());

}  // namespace heed::detail
