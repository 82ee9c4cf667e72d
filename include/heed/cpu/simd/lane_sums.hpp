// lane_sums: the sums over the lanes of several vectors, side by side in one.
#pragma once

#include "heed/cpu/simd/transpose.hpp"

namespace heed::detail {

// Of two vectors whose lanes come in blocks of 2 * `Distance`: in each block the lower half of the first and the upper
// half of the second; or the two halves that are left, brought to the same places.
template <class Simd, int Distance, bool Kept>
struct fold_lanes {
  static constexpr int lane(int at) {
    const bool upper = at / Distance % 2 == 1;
    if (Kept) return at + (upper ? Simd::lanes : 0);
    return upper ? at - Distance + Simd::lanes : at + Distance;
  }
};

/// Adds up lanes that lie `Distance` apart, then twice as far, until of `Count` vectors one is left. From Distance 1 to
/// as many vectors as lanes, lane l of the result is the sum over rows[l]; each sum is added in the same order, in
/// however many steps it is done.
template <class Simd, int Distance, std::size_t Count>
HEED_VERB void lane_sums(typename Simd::vector& to, typename Simd::vector const (&rows)[Count]) noexcept {
  if constexpr (Count == 1) {
    to = rows[0];
  } else {
    constexpr auto all = std::make_integer_sequence<int, Simd::lanes>{};
    typename Simd::vector half[Count / 2];
    HEED_UNROLL
    for (std::size_t pair = 0; pair < Count / 2; ++pair) {
      typename Simd::vector kept, moved;
      shuffle<Simd>(kept, rows[2 * pair], rows[2 * pair + 1], fold_lanes<Simd, Distance, true>{}, all);
      shuffle<Simd>(moved, rows[2 * pair], rows[2 * pair + 1], fold_lanes<Simd, Distance, false>{}, all);
      half[pair] = kept + moved;
    }
    lane_sums<Simd, 2 * Distance>(to, half);
  }
}

}  // namespace heed::detail
