// transpose: a square of vectors, rows to columns, in registers.
#pragma once

#include <utility>

#include "heed/cpu/simd/vector.hpp"

namespace heed::detail {

// Lane l of `low` and `high` is one lane of the pair (first, second), `pick(l)` counting through both.
template <class Simd, class Pick, int... Lane>
HEED_VERB void shuffle(typename Simd::vector& to, typename Simd::vector const& first,
                       typename Simd::vector const& second, Pick, std::integer_sequence<int, Lane...>) noexcept {
  to = __builtin_shufflevector(first, second, Pick::lane(Lane)...);
}

// Interleaves groups of `Group` lanes inside each 16 bytes: the lower halves of both operands, or the upper ones.
template <class Simd, int Group, bool Upper>
struct interleave {
  static constexpr int lane(int at) {
    constexpr int chunk = 16 / static_cast<int>(sizeof(typename Simd::scalar));
    const int place = at % chunk;
    const int from = place / (2 * Group) * Group + place % Group + (Upper ? chunk / 2 : 0);
    return at / chunk * chunk + from + (place / Group % 2 == 1 ? Simd::lanes : 0);
  }
};

// The even blocks of 16 bytes of one operand and then of the other, or their odd ones.
template <class Simd, bool Odd>
struct every_other_block {
  static constexpr int lane(int at) {
    constexpr int chunk = 16 / static_cast<int>(sizeof(typename Simd::scalar));
    return (at / chunk * 2 + (Odd ? 1 : 0)) * chunk + at % chunk;
  }
};

template <class Simd, class Low, class High>
HEED_VERB void cross(typename Simd::vector& one, typename Simd::vector& other) noexcept {
  constexpr auto all = std::make_integer_sequence<int, Simd::lanes>{};
  typename Simd::vector low, high;
  shuffle<Simd>(low, one, other, Low{}, all);
  shuffle<Simd>(high, one, other, High{}, all);
  one = low;
  other = high;
}

/// rows[i][j] and rows[j][i] change places.
template <class Simd>
HEED_VERB void transpose_square(typename Simd::vector (&rows)[Simd::lanes]) noexcept {
  using vector = typename Simd::vector;
  constexpr int chunk = 16 / static_cast<int>(sizeof(typename Simd::scalar));
  // Inside each 16 bytes, where interleaving is one instruction.
  HEED_UNROLL
  for (int row = 0; row < Simd::lanes; row += chunk) {
    if constexpr (chunk == 2) {
      cross<Simd, interleave<Simd, 1, false>, interleave<Simd, 1, true>>(rows[row], rows[row + 1]);
    } else {
      cross<Simd, interleave<Simd, 1, false>, interleave<Simd, 1, true>>(rows[row], rows[row + 1]);
      cross<Simd, interleave<Simd, 1, false>, interleave<Simd, 1, true>>(rows[row + 2], rows[row + 3]);
      cross<Simd, interleave<Simd, 2, false>, interleave<Simd, 2, true>>(rows[row], rows[row + 2]);
      cross<Simd, interleave<Simd, 2, false>, interleave<Simd, 2, true>>(rows[row + 1], rows[row + 3]);
      const vector second = rows[row + 1];
      rows[row + 1] = rows[row + 2];
      rows[row + 2] = second;
    }
  }
  // Then whole blocks of 16 bytes: of two groups of rows, or of four, two and two.
  HEED_UNROLL
  for (int row = 0; Simd::lanes > chunk && row < chunk; ++row) {
    HEED_UNROLL
    for (int pair = row; pair < Simd::lanes; pair += 2 * chunk) {
      cross<Simd, every_other_block<Simd, false>, every_other_block<Simd, true>>(rows[pair], rows[pair + chunk]);
    }
    if constexpr (Simd::lanes > 2 * chunk) {
      // Now [0 2 | 0 2], [1 3 | 1 3] of the groups 0 and 1, and of 2 and 3.
      cross<Simd, every_other_block<Simd, false>, every_other_block<Simd, true>>(rows[row], rows[row + 2 * chunk]);
      cross<Simd, every_other_block<Simd, false>, every_other_block<Simd, true>>(rows[row + chunk],
                                                                                 rows[row + 3 * chunk]);
    }
  }
}

/// The same, j counting what a lane holds: one column or several.
template <class Simd>
HEED_VERB void transpose(typename Simd::vector (&rows)[Simd::lanes]) noexcept {
  transpose_square<typename Simd::squares>(reinterpret_cast<typename Simd::squares::vector(&)[Simd::lanes]>(rows));
}

}  // namespace heed::detail
