// add_rows: the output of a few query rows += probabilities times values, each value row read once.
#pragma once

#include "heed/base/index.hpp"
#include "heed/base/power_of_2.hpp"
#include "heed/cpu/verb/row_elements.hpp"
#include "heed/cpu/verb/rows_ahead.hpp"

namespace heed::detail {

/// What the tiles of one call share; lengths and strides in elements.
template <class Element, class Real>
struct rows_to_add {
  Real const* probabilities;  // [rows, probability_stride]
  index_t probability_stride;
  Element const* value;  // [keys, value_stride]
  index_t value_stride;
  index_t keys;
  Real* out;  // [rows, out_stride]
  index_t out_stride;
  rows_ahead ahead;
  index_t lines;  // of what lies ahead, to ask for with each keys_per_ask keys of a tile
};

inline constexpr index_t keys_per_ask = 4;

// `Slices` vectors of `Rows` output rows += their sums over the keys, all accumulators in registers. The first tile of
// a row sums its probabilities, too.
template <class Simd, int Rows, int Slices, class Element>
HEED_VERB void add_tile(rows_to_add<Element, typename Simd::scalar>& of, index_t from, index_t to) noexcept {
  using vector = typename Simd::vector;
  vector sum[std::size_t{Rows}][std::size_t{Slices}], weight[std::size_t{Rows}];
  typename Simd::scalar* const last = of.out + of.out_stride - Simd::lanes;
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    weight[row] = vector{};
    HEED_UNROLL
    for (int s = 0; s < Slices; ++s) sum[row][s] = vector{};
  }
  Element const* value = of.value + from;
  rows_ahead ahead = of.ahead;
  for (index_t key = 0; key < of.keys; ++key, value += of.value_stride) {
    if (Rows > 1 && key % keys_per_ask == 0) ahead.ask(of.lines);
    vector at[std::size_t{Slices}];
    HEED_UNROLL
    for (int s = 0; s < Slices; ++s) {
      Element const* const place = value + s * Simd::lanes;
      widen<Simd>(at[s], place);
      if constexpr (Rows == 1) __builtin_prefetch(reinterpret_cast<char const*>(place) + ahead.distance(), 0, 3);
    }
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      vector factor;
      Simd::splat(factor, of.probabilities + row * of.probability_stride + key);
      weight[row] += factor;
      HEED_UNROLL
      for (int s = 0; s < Slices; ++s) sum[row][s] += factor * at[s];
    }
  }
  of.ahead = ahead;
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    vector before;
    if (to == 0) {
      Simd::load(before, last + row * of.out_stride);
      weight[row] += before;
      Simd::store(last + row * of.out_stride, weight[row]);
    }
    HEED_UNROLL
    for (int s = 0; s < Slices; ++s) {
      typename Simd::scalar* const place = of.out + row * of.out_stride + to + s * Simd::lanes;
      Simd::load(before, place);
      sum[row][s] += before;
      Simd::store(place, sum[row][s]);
    }
  }
}

/// out [rows, out_stride] += probabilities [rows, probability_stride] * value [keys, value_stride], of keys_left that
/// will be wanted in the end; in sums of keys_near keys, counted from `lead` keys before the first one, so that no bit
/// depends on where a run begins. Three more rows than there are may be written, with what their probabilities are.
/// A row of out is whole vectors: of columns [0, head_dim) in their order, behind them those of the last `lanes` if any
/// are left over, and then one of what a column of ones would give: what out is to be divided by, for it is rounded as
/// out is.
template <class Simd, int Slices, element_kind Own>
HEED_VERB void add_rows(typename Simd::scalar const* probabilities, index_t probability_stride, index_t rows,
                        void const* value, element_kind kind, index_t value_stride, index_t lead, index_t keys,
                        index_t keys_left, index_t head_dim, typename Simd::scalar* out, index_t out_stride) noexcept {
  constexpr index_t keys_near = 32;  // stay in the first-level cache for all slices and rows
  with_row_element<Simd, Own>(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        index_t count = keys_near - mod_pow2(lead, keys_near);
        for (index_t first = 0; first < keys; first += count, count = keys_near) {
          rows_to_add<element_type, typename Simd::scalar> part{
              probabilities + first,
              probability_stride,
              static_cast<element_type const*>(value) + first * value_stride,
              value_stride,
              lesser(count, keys - first),
              out,
              out_stride,
              {static_cast<element_type const*>(value) + first * value_stride, value_stride, head_dim,
               lesser(count, keys - first), keys_left - first, bytes_ahead_of(rows)},
              0};
          const index_t turns = ceil_div(head_dim, Slices * Simd::lanes) * ceil_div(part.keys, keys_per_ask);
          part.lines = part.ahead.share(row_passes(rows) * turns);
          for (index_t row = 0; row < rows;) {
            const bool four = rows - row > 2;
            index_t dim = 0;
            if (four) {
              for (; dim + Slices * Simd::lanes <= head_dim; dim += Slices * Simd::lanes) {
                add_tile<Simd, 4, Slices>(part, dim, dim);
              }
            } else {
              // Eight vectors hold a whole row of 128 floats: then values are read in the order of memory.
              for (; dim + 8 * Simd::lanes <= head_dim; dim += 8 * Simd::lanes) add_tile<Simd, 1, 8>(part, dim, dim);
              for (; dim + 4 * Simd::lanes <= head_dim; dim += 4 * Simd::lanes) add_tile<Simd, 1, 4>(part, dim, dim);
            }
            // What whole tiles leave over, once for the rows that are left over. The last vector reaches back into the
            // one before it rather than past the row's end.
            for (; dim < head_dim && (four || rows - row == rows % 4); dim += Simd::lanes) {
              add_tile<Simd, 4, 1>(part, lesser(dim, head_dim - Simd::lanes), dim);
            }
            const index_t done = four ? 4 : 1;
            row += done;
            part.probabilities += done * probability_stride;
            part.out += done * out_stride;
          }
        }
      });
}

}  // namespace heed::detail
