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

// Exchanges blocks of `Group` lanes between two vectors: the even blocks of both, or the odd ones.
template <class Simd, int Group, bool Odd>
struct exchange {
  static constexpr int lane(int at) {
    const bool second = at / Group % 2 == 1;
    return at - (second ? Group : 0) + (Odd ? Group : 0) + (second ? Simd::lanes : 0);
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
HEED_VERB void transpose(typename Simd::vector (&rows)[Simd::lanes]) noexcept {
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
  // Then whole blocks of 16 bytes, 32 bytes.
  if constexpr (Simd::lanes > chunk) {
    HEED_UNROLL
    for (int row = 0; row < Simd::lanes; ++row) {
      if (row / chunk % 2 == 0) {
        cross<Simd, exchange<Simd, chunk, false>, exchange<Simd, chunk, true>>(rows[row], rows[row + chunk]);
      }
    }
  }
  if constexpr (Simd::lanes > 2 * chunk) {
    HEED_UNROLL
    for (int row = 0; row < Simd::lanes; ++row) {
      if (row / chunk % 4 < 2) {
        cross<Simd, exchange<Simd, 2 * chunk, false>, exchange<Simd, 2 * chunk, true>>(rows[row],
                                                                                       rows[row + 2 * chunk]);
      }
    }
  }
}

}  // namespace heed::detail
