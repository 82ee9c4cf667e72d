// Matrix tiles of bfloat16 (AMX): sixteen rows of 64 bytes each, multiplied as a whole.
#pragma once

#include <utility>

#include "heed/base/index.hpp"
#include "heed/cpu/simd/bf16_pairs.hpp"

namespace heed::detail {

/// Vectors of pairs of bfloat16 beside tiles, whose rows are one line: sixteen words.
struct bf16_tiles : bf16_pairs {
  static constexpr int words_per_line = 16;

  // Where there are tiles, the instructions of pairs take four times as long as those of plain integers.

  /// sum += words.low + words.high.
  HEED_VERB static void add_pair(vector& sum, vector const& words) noexcept {
    vector low, high;
    widen_pair(low, high, words);
    sum += low;
    sum += high;
  }

  /// Words (low, high), each rounded to bfloat16, halves away from 0; NaN stays NaN.
  HEED_VERB static void round_pair(vector& words, vector const& low, vector const& high) noexcept {
    bits lower, upper;
    carry_halves(lower, low);
    carry_halves(upper, high);
    const bits both = (upper & 0xffff0000u) | lower >> 16;
    words = reinterpret_cast<vector const&>(both);
  }

  /// The sixteen of `first`, then those of `second`, rounded the same way.
  HEED_VERB static void round_rows(shorts& halves, vector const& first, vector const& second) noexcept {
    bits lower, upper;
    carry_halves(lower, first);
    carry_halves(upper, second);
    halves = __builtin_shufflevector(reinterpret_cast<shorts const&>(lower), reinterpret_cast<shorts const&>(upper), 1,
                                     3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45,
                                     47, 49, 51, 53, 55, 57, 59, 61, 63);
  }

  HEED_VERB static void widen_pair(vector& low, vector& high, vector const& words) noexcept {
    const integers lower = reinterpret_cast<integers const&>(words) << 16;
    const integers upper = reinterpret_cast<integers const&>(words) & ~0xffff;
    low = reinterpret_cast<vector const&>(lower);
    high = reinterpret_cast<vector const&>(upper);
  }

  /// halves += the lower and the upper halves of factor times those of at.
  HEED_VERB static void multiply_add_halves(vector (&halves)[2], vector const& factor, vector const& at) noexcept {
    vector low, high, low_at, high_at;
    widen_pair(low, high, factor);
    widen_pair(low_at, high_at, at);
    halves[0] += low * low_at;
    halves[1] += high * high_at;
  }

 private:
  /// Upper halves become what numbers round to. The payload of a NaN might carry into its sign and beyond.
  HEED_VERB static void carry_halves(bits& to, vector const& numbers) noexcept {
    const bits carried = reinterpret_cast<bits const&>(numbers) + 0x8000u;
    to = numbers == numbers ? carried : bits{} + 0x7fc00000u;
  }
};

// What a verb makes of the eight tiles: two rows of three sums, one tile of keys or of dimensions of V, and one of
// words of queries. The latter two are loaded anew for each product: the processor renames them.
inline constexpr int tile_rows = 16;
inline constexpr int left_tile = 6;
inline constexpr int right_tile = 7;

/// What ldtilecfg reads: palette 1, and for each tile its rows and the bytes of one.
struct alignas(64) tile_shapes {
  /// Sums of `rows` rows, over lines of `words`.
  HEED_FN explicit tile_shapes(index_t rows, index_t words = bf16_tiles::words_per_line) noexcept {
    for (int tile = 0; tile < 8; ++tile) {
      row_bytes[tile] = static_cast<std::uint16_t>(tile == left_tile ? 4 * words : 64);
      row_count[tile] = static_cast<std::uint8_t>(tile == right_tile ? words : rows);
    }
  }

  std::uint8_t palette = 1;
  std::uint8_t zeros[15] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t row_count[16] = {};
};

/// Between the two a verb may use tiles; their state ends with it.
HEED_VERB void open_tiles(tile_shapes const& shapes) noexcept { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
HEED_VERB void close_tiles() noexcept { asm volatile("tilerelease"); }

// Rows are `words` words apart. Plain text for the assembler: the compilers know no tiles in a baseline function.
template <int Tile>
HEED_VERB void load_tile(float const* from, index_t words) noexcept {
  asm volatile("tileloadd (%0,%1,4), %%tmm%c2" : : "r"(from), "r"(words), "i"(Tile) : "memory");
}
template <int Tile>
HEED_VERB void store_tile(float* to, index_t words) noexcept {
  asm volatile("tilestored %%tmm%c2, (%0,%1,4)" : : "r"(to), "r"(words), "i"(Tile) : "memory");
}
template <int Tile>
HEED_VERB void clear_tile() noexcept {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
template <int Tile>
HEED_VERB void multiply_add_tile() noexcept {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Tile), "i"(left_tile), "i"(right_tile));
}

/// Up to three tiles of sums beside each other, `First` and those behind it, for as many vectors of queries. Two such
/// rows take turns: while one is multiplied the other is stored.
template <int First, class Columns>
struct tile_row;
template <int First, int... Column>
struct tile_row<First, std::integer_sequence<int, Column...>> {
  HEED_VERB static void clear() noexcept { (clear_tile<First + Column>(), ...); }
  HEED_VERB static void load(float const* from, index_t lanes) noexcept {
    (load_tile<First + Column>(from + Column * bf16_tiles::lanes, lanes), ...);
  }
  HEED_VERB static void store(float* to, index_t lanes) noexcept {
    (store_tile<First + Column>(to + Column * bf16_tiles::lanes, lanes), ...);
  }
  /// sums += left * right over one line.
  HEED_VERB static void multiply_add(float const* left, index_t left_words, float const* right,
                                     index_t lanes) noexcept {
    load_tile<left_tile>(left, left_words);
    (multiply_add_column<Column>(right, lanes), ...);
  }

 private:
  template <int At>
  HEED_VERB static void multiply_add_column(float const* right, index_t lanes) noexcept {
    load_tile<right_tile>(right + At * bf16_tiles::lanes, lanes);
    multiply_add_tile<First + At>();
  }
};

template <bool Second, int Vectors>
using tile_sums = tile_row<Second ? 3 : 0, std::make_integer_sequence<int, Vectors>>;

}  // namespace heed::detail
