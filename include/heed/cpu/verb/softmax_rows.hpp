// softmax_rows: softmax with the keys in the lanes, one query row after the other.
#pragma once

#include "heed/cpu/simd/transpose.hpp"
#include "heed/cpu/verb/softmax.hpp"

namespace heed::detail {

template <int Distance>
struct swap_lanes {
  static constexpr int lane(int at) { return at ^ Distance; }
};

/// All lanes = the largest lane, or the sum of the lanes.
template <class Simd, bool Sum, int Distance = Simd::lanes / 2>
HEED_VERB void across_lanes(typename Simd::vector& all) noexcept {
  typename Simd::vector moved;
  shuffle<Simd>(moved, all, all, swap_lanes<Distance>{}, std::make_integer_sequence<int, Simd::lanes>{});
  if constexpr (Sum) {
    all += moved;
  } else {
    Simd::larger(all, moved, all);
  }
  if constexpr (Distance > 1) across_lanes<Simd, Sum, Distance / 2>(all);
}

/// scores [rows, score_stride], whole vectors of `keys` -> exp(scores - the larger of row_max and theirs), in place;
/// row_max and row_sum [rows] follow, and out [rows, out_stride] is rescaled to the new maximum.
template <class Simd>
HEED_VERB void softmax_rows(typename Simd::scalar* scores, index_t score_stride, index_t rows, index_t keys,
                            typename Simd::scalar* row_max, typename Simd::scalar* row_sum, typename Simd::scalar* out,
                            index_t out_stride) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  for (index_t row = 0; row < rows; ++row) {
    Real* const line = scores + row * score_stride;
    vector highest, before, base, factor, sum{};
    Simd::splat(before, row_max + row);
    highest = before;
    for (index_t key = 0; key < keys; key += Simd::lanes) {
      vector score;
      Simd::load(score, line + key);
      Simd::larger(highest, score, highest);
    }
    across_lanes<Simd, false>(highest);
    finite_base<Simd>(base, highest);
    for (index_t key = 0; key < keys; key += Simd::lanes) {
      vector score, probability;
      Simd::load(score, line + key);
      score = (score - base) * log2_e<Real>;
      exp2<Simd>(probability, score);
      Simd::store(line + key, probability);
      sum += probability;
    }
    across_lanes<Simd, true>(sum);
    before = (before - base) * log2_e<Real>;
    exp2<Simd>(factor, before);
    row_sum[row] = row_sum[row] * factor[0] + sum[0];
    row_max[row] = highest[0];
    if (factor[0] == Real(1)) continue;
    for (index_t dim = 0; dim < out_stride; dim += Simd::lanes) {
      vector value;
      Simd::load(value, out + row * out_stride + dim);
      value *= factor;
      Simd::store(out + row * out_stride + dim, value);
    }
  }
}

/// to = from * factor, in whole vectors. Returns whether `from` is finite.
/// Zeros lose their sign, which may come from a value that the row does not even see.
template <class Simd>
HEED_VERB bool scale_row(typename Simd::scalar const* from, index_t columns, typename Simd::scalar factor,
                         typename Simd::scalar* to) noexcept {
  using Real = typename Simd::scalar;
  typename Simd::vector number, poison{};  // 0, or NaN once an infinity or a NaN has been met
  for (index_t column = 0; column < columns; column += Simd::lanes) {
    Simd::load_unaligned(number, from + column);
    poison += number * Real(0);
    number = (number + Real(0)) * factor;
    Simd::store_unaligned(to + column, number);
  }
  return Simd::is_zero(poison);
}

/// One more split of the keys: out, row_max and row_sum of two sets of keys become those of both.
template <class Simd>
HEED_VERB void merge_rows(index_t rows, typename Simd::scalar* row_max, typename Simd::scalar* row_sum,
                          typename Simd::scalar* out, typename Simd::scalar const* next_max,
                          typename Simd::scalar const* next_sum, typename Simd::scalar const* next_out,
                          index_t out_stride) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  for (index_t row = 0; row < rows; ++row) {
    vector before, next, highest, base, factor, next_factor;
    Simd::splat(before, row_max + row);
    Simd::splat(next, next_max + row);
    Simd::larger(highest, next, before);
    finite_base<Simd>(base, highest);
    before = (before - base) * log2_e<Real>;
    next = (next - base) * log2_e<Real>;
    exp2<Simd>(factor, before);
    exp2<Simd>(next_factor, next);
    row_sum[row] = row_sum[row] * factor[0] + next_sum[row] * next_factor[0];
    row_max[row] = highest[0];
    for (index_t dim = row * out_stride; dim < (row + 1) * out_stride; dim += Simd::lanes) {
      vector sum, more;
      Simd::load(sum, out + dim);
      Simd::load(more, next_out + dim);
      sum = sum * factor + more * next_factor;
      Simd::store(out + dim, sum);
    }
  }
}

}  // namespace heed::detail
