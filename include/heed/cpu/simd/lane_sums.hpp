// lane_sums: the sums over the lanes of several vectors, side by side in one.
#pragma once

#include "heed/cpu/simd/transpose.hpp"

namespace heed::detail {

// Of two vectors, one after the other: their even blocks of `Group` lanes, or their odd ones.
template <class Simd, int Group, bool Odd>
struct every_other {
  static constexpr int lane(int at) { return at / Group * 2 * Group + at % Group + (Odd ? Group : 0); }
};

/// Adds up lanes until of `Count` vectors one is left: in each 16 bytes first, at Distance 1, then (from `chunk` on)
/// the chunks of 16 bytes. From Distance 1 to as many vectors as lanes, lane l of the result is the sum over rows[l];
/// each sum is added in the same order, in however many steps it is done.
template <class Simd, int Distance, std::size_t Count>
HEED_VERB void lane_sums(typename Simd::vector& to, typename Simd::vector const (&rows)[Count]) noexcept {
  if constexpr (Count == 1) {
    to = rows[0];
  } else {
    constexpr auto all = std::make_integer_sequence<int, Simd::lanes>{};
    constexpr int chunk = 16 / static_cast<int>(sizeof(typename Simd::scalar));
    typename Simd::vector half[Count / 2];
    HEED_UNROLL
    for (std::size_t pair = 0; pair < Count / 2; ++pair) {
      typename Simd::vector one, other;
      if constexpr (Distance < chunk) {
        shuffle<Simd>(one, rows[2 * pair], rows[2 * pair + 1], interleave<Simd, Distance, false>{}, all);
        shuffle<Simd>(other, rows[2 * pair], rows[2 * pair + 1], interleave<Simd, Distance, true>{}, all);
      } else {
        shuffle<Simd>(one, rows[2 * pair], rows[2 * pair + 1], every_other<Simd, chunk, false>{}, all);
        shuffle<Simd>(other, rows[2 * pair], rows[2 * pair + 1], every_other<Simd, chunk, true>{}, all);
      }
      half[pair] = one + other;
    }
    lane_sums<Simd, 2 * Distance>(to, half);
  }
}

}  // namespace heed::detail
