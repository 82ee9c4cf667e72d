// Vectors for no more than eight query rows of float, which leave no lane of AVX-512 empty.
#pragma once

#include "heed/cpu/simd/transpose.hpp"

namespace heed::detail {

/// Two neighbouring lanes for each of eight query rows: two neighbouring columns of head_dim, which is even. Products
/// take half as many steps as with a row in each lane.
struct column_pairs : simd<float, 16> {
  static constexpr int lanes = 8;
  static constexpr int columns_per_lane = 2;
  using rows = simd<float, 8>;
  using squares = simd<double, 8>;  // only moved, never computed with
  typedef std::int64_t pairs __attribute__((vector_size(64), may_alias));
  typedef std::int64_t loose_pair __attribute__((may_alias, aligned(4)));

  /// All rows = the pair at `from`.
  HEED_VERB static void splat(vector& to, float const* from) noexcept {
#if defined(__x86_64__) && !defined(__clang__)
    asm("vbroadcastsd %1, %0" : "=v"(to) : "m"(*reinterpret_cast<loose_pair const*>(from)));
#else
    const pairs all = *reinterpret_cast<loose_pair const*>(from) + pairs{};
    to = reinterpret_cast<vector const&>(all);
#endif
  }

  /// The number of each row, in both of its lanes.
  HEED_VERB static void load_rows(vector& to, float const* from) noexcept {
    rows::vector one;
    rows::load(one, from);
    to = __builtin_shufflevector(one, one, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  }

  /// Sums over all columns from those over the even and the odd ones.
  HEED_VERB static void add_columns(rows::vector& to, vector const& sum) noexcept {
    const rows::vector even = __builtin_shufflevector(sum, sum, 0, 2, 4, 6, 8, 10, 12, 14);
    const rows::vector odd = __builtin_shufflevector(sum, sum, 1, 3, 5, 7, 9, 11, 13, 15);
    to = even + odd;
  }
};

}  // namespace heed::detail
