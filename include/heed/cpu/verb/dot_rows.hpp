// dot_rows: scores of a few query rows against many keys, each key row read once and in memory order.
#pragma once

#include "heed/base/index.hpp"
#include "heed/base/power_of_2.hpp"
#include "heed/cpu/simd/lane_sums.hpp"
#include "heed/cpu/verb/row_elements.hpp"
#include "heed/cpu/verb/rows_ahead.hpp"

namespace heed::detail {

template <class Real>
alignas(64) inline constexpr Real lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// `Keys` keys against `Rows` query rows with head_dim in the lanes, all accumulators in registers; each lane is one
// chain of multiply-adds over head_dim, whatever the tile. What is left are the sums of `Keys` lanes each.
// The last vector of a row reaches back into the one before it rather than past the row's end; what it has seen twice
// is 0 in query, and hidden here because 0 * inf is not 0. A lone row asks for what lies `distance` bytes ahead.
template <class Simd, int Rows, int Keys, class Element>
HEED_VERB void dot_tile(typename Simd::scalar const* query, index_t query_stride,
                        Element const* const (&key)[std::size_t{Keys}], index_t head_dim, typename Simd::scalar* sums,
                        index_t sums_stride, index_t distance) noexcept {
  using vector = typename Simd::vector;
  vector sum[std::size_t{Rows}][std::size_t{Keys}];
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    HEED_UNROLL
    for (int k = 0; k < Keys; ++k) sum[row][k] = vector{};
  }
  const index_t whole = round_down_pow2(head_dim, Simd::lanes);
  const auto add = [&](vector const(&at)[std::size_t{Keys}], index_t dim) __attribute__((always_inline)) {
    HEED_UNROLL
    for (int row = 0; row < Rows; ++row) {
      vector factor;
      Simd::load(factor, query + row * query_stride + dim);
      HEED_UNROLL
      for (int k = 0; k < Keys; ++k) sum[row][k] += factor * at[k];
    }
  };
  HEED_UNROLL_4
  for (index_t dim = 0; dim < whole; dim += Simd::lanes) {
    vector at[std::size_t{Keys}];
    HEED_UNROLL
    for (int k = 0; k < Keys; ++k) widen<Simd>(at[k], key[k] + dim);
    if constexpr (Rows == 1) __builtin_prefetch(reinterpret_cast<char const*>(key[0] + dim) + distance, 0, 3);
    add(at, dim);
  }
  if (whole < head_dim) {
    vector at[std::size_t{Keys}], lane;
    Simd::load(lane, lane_numbers<typename Simd::scalar>);
    HEED_UNROLL
    for (int k = 0; k < Keys; ++k) {
      widen<Simd>(at[k], key[k] + head_dim - Simd::lanes);
      at[k] = lane < static_cast<typename Simd::scalar>(whole + Simd::lanes - head_dim) ? vector{} : at[k];
    }
    add(at, whole);
  }
  HEED_UNROLL
  for (int row = 0; row < Rows; ++row) {
    vector folded;
    lane_sums<Simd, 1>(folded, sum[row]);
    Simd::store(sums + row * sums_stride, folded);
  }
}

// Scores of up to as many keys as a vector has lanes. With each tile so many lines of `ahead` are asked for.
template <class Simd, int Rows, int Keys, class Element>
HEED_VERB void dot_group(typename Simd::scalar const* query, index_t query_stride, Element const* key,
                         index_t key_stride, index_t keys, index_t head_dim, typename Simd::scalar* scores,
                         index_t score_stride, typename Simd::scalar* sums, rows_ahead& ahead, index_t lines) noexcept {
  constexpr int parts = Simd::lanes / Keys;
  for (index_t first = 0; first < keys; first += Keys) {
    Element const* row[std::size_t{Keys}];
    HEED_UNROLL
    for (int k = 0; k < Keys; ++k) row[k] = key + lesser(first + k, keys - 1) * key_stride;
    if constexpr (Rows > 1) ahead.ask(lines);
    dot_tile<Simd, Rows, Keys>(query, query_stride, row, head_dim, sums + first / Keys * Simd::lanes,
                               parts * Simd::lanes, ahead.distance());
  }
  for (int row = 0; row < Rows; ++row) {
    typename Simd::vector part[std::size_t{parts}], total;
    HEED_UNROLL
    for (int p = 0; p < parts; ++p) Simd::load(part[p], sums + (row * parts + p) * Simd::lanes);
    lane_sums<Simd, Keys>(total, part);
    Simd::store_unaligned(scores + row * score_stride, total);
  }
}

/// scores [rows, score_stride] of keys [0, keys), of keys_left that will be wanted in the end; up to a vector more is
/// written behind the last score. Query rows are padded to whole vectors; three more than there are may be read, and
/// their scores written. A single row takes one key after the other, in the order of memory.
template <class Simd, int Keys, element_kind Own>
HEED_VERB void dot_rows(typename Simd::scalar const* query, index_t query_stride, index_t rows, void const* key,
                        element_kind kind, index_t key_stride, index_t keys, index_t keys_left, index_t head_dim,
                        typename Simd::scalar* scores, index_t score_stride, typename Simd::scalar* sums) noexcept {
  with_row_element<Simd, Own>(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        for (index_t first = 0; first < keys; first += Simd::lanes) {
          element_type const* const group = static_cast<element_type const*>(key) + first * key_stride;
          const index_t count = lesser(Simd::lanes, keys - first);
          rows_ahead ahead(group, key_stride, head_dim, count, keys_left - first, bytes_ahead_of(rows));
          const index_t lines = ahead.share(row_passes(rows) * (Simd::lanes / Keys));
          for (index_t row = 0; row < rows;) {
            typename Simd::scalar const* const from = query + row * query_stride;
            typename Simd::scalar* const to = scores + row * score_stride + first;
            if (rows - row > 2) {
              dot_group<Simd, 4, Keys>(from, query_stride, group, key_stride, count, head_dim, to, score_stride, sums,
                                       ahead, lines);
              row += 4;
            } else {
              dot_group<Simd, 1, 1>(from, query_stride, group, key_stride, count, head_dim, to, score_stride, sums,
                                    ahead, lines);
              ++row;
            }
          }
        }
      });
}

}  // namespace heed::detail
