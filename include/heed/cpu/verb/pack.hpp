// pack and unpack: between the caller's elements and strides and the tiles of the verbs. Types and strides end here.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/convert.hpp"
#include "heed/cpu/simd/transpose.hpp"

namespace heed::detail {

// How far ahead of their use strided rows are asked for: no hardware prefetcher follows from page to page.
inline constexpr index_t rows_asked_ahead = 8;

// The lines of a row that will be read soon.
template <class Element>
HEED_VERB void ask_for_row(Element const* row, index_t columns) noexcept {
  constexpr index_t line_elements = 64 / static_cast<index_t>(sizeof(Element));
  for (index_t column = 0; column < columns; column += line_elements) __builtin_prefetch(row + column);
}

/// The caller's rows of Q, K or V: to [rows, columns], contiguous. Rows that lie far apart are asked for ahead of time.
template <class Simd>
HEED_VERB void pack_rows(void const* from, element_kind kind, index_t row_stride, index_t column_stride, index_t rows,
                         index_t columns, typename Simd::scalar* to) noexcept {
  with_element(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        element_type const* line = static_cast<element_type const*>(from);
        const index_t whole = column_stride == 1 ? columns / Simd::lanes * Simd::lanes : 0;
        for (index_t row = 0; row < rows; ++row, line += row_stride, to += columns) {
          ask_for_row(line + (row + rows_asked_ahead < rows ? rows_asked_ahead * row_stride : 0), whole);
          for (index_t column = 0; column < whole; column += Simd::lanes) {
            typename Simd::vector wide;
            widen<Simd>(wide, line + column);
            Simd::store_unaligned(to + column, wide);
          }
          for (index_t column = whole; column < columns; ++column) {
            to[column] = static_cast<typename Simd::scalar>(line[column * column_stride]);
          }
        }
      });
}

/// Rows of doubles, of the terms of a stage: to floats. Finite ones beyond their range become the largest: -inf hides.
template <class Simd>
HEED_VERB void narrow_terms(double const* from, index_t row_stride, index_t column_stride, index_t rows,
                            index_t columns, float* to) noexcept {
  const auto narrowed = [](double term) __attribute__((always_inline)) {
    const double most = double{__FLT_MAX__};
    const double within = term < -most ? -most : term > most ? most : term;
    return static_cast<float>(term - term == 0 ? within : term);  // infinities and NaN stay
  };
  const index_t whole = column_stride == 1 ? columns / Simd::lanes * Simd::lanes : 0;
  for (index_t row = 0; row < rows; ++row, from += row_stride, to += columns) {
    for (index_t column = 0; column < whole; column += Simd::lanes) {
      for (int lane = 0; lane < Simd::lanes; ++lane) to[column + lane] = narrowed(from[column + lane]);
    }
    for (index_t column = whole; column < columns; ++column) to[column] = narrowed(from[column * column_stride]);
  }
}

/// Rows of bfloat16, of Q or K: to words of neighbours in a row, whole lines of them, what is left over 0.
template <class Simd>
HEED_VERB void pack_row_pairs(bfloat16 const* from, index_t row_stride, index_t column_stride, index_t rows,
                              index_t columns, float* to) noexcept {
  constexpr index_t step = Simd::words_per_line * 2;
  const index_t width = (columns + step - 1) / step * step;
  bfloat16* line = reinterpret_cast<bfloat16*>(to);
  for (index_t row = 0; row < rows; ++row, from += row_stride, line += width) {
    if (column_stride == 1) {
      __builtin_memcpy(line, from, static_cast<std::size_t>(columns) * sizeof(bfloat16));
    } else {
      for (index_t column = 0; column < columns; ++column) line[column] = from[column * column_stride];
    }
    for (index_t column = columns; column < width; ++column) line[column] = bfloat16::from_bits(0);
  }
}

/// Rows of bfloat16, of V: to words [ceil((lead + rows) / 2), columns] of neighbours in a column. The first row goes to
/// row `lead` (0 or 1); what has no row becomes 0.
HEED_VERB void pack_key_pairs(bfloat16 const* from, index_t row_stride, index_t column_stride, index_t lead,
                              index_t rows, index_t columns, float* to) noexcept {
  bfloat16* words = reinterpret_cast<bfloat16*>(to);
  for (index_t row = -lead; row < rows; row += 2, words += 2 * columns) {
    bfloat16 const* const low = from + row * row_stride;
    bfloat16 const* const high = low + row_stride;
    if (column_stride == 1 && row + 1 + rows_asked_ahead < rows) {
      ask_for_row(low + rows_asked_ahead * row_stride, columns);
      ask_for_row(high + rows_asked_ahead * row_stride, columns);
    }
    if (row >= 0 && row + 1 < rows && column_stride == 1) {
      for (index_t column = 0; column < columns; ++column) {
        words[2 * column] = low[column];
        words[2 * column + 1] = high[column];
      }
      continue;
    }
    for (index_t column = 0; column < columns; ++column) {
      words[2 * column] = row >= 0 ? low[column * column_stride] : bfloat16::from_bits(0);
      words[2 * column + 1] = row + 1 < rows ? high[column * column_stride] : bfloat16::from_bits(0);
    }
  }
}

// Sixteen words of neighbours in a column: of two rows, or of one and zeros (null).
template <class Simd>
HEED_VERB void join_rows(typename Simd::vector& words, bfloat16 const* low, bfloat16 const* high) noexcept {
  using integers = typename Simd::integers;
  typename Simd::vector wide{};
  if (low != nullptr) widen_bfloat16<Simd>(wide, low);
  const integers lower = (reinterpret_cast<integers const&>(wide) >> 16) & 0xffff;
  wide = typename Simd::vector{};
  if (high != nullptr) widen_bfloat16<Simd>(wide, high);
  const integers both = reinterpret_cast<integers const&>(wide) | lower;
  words = reinterpret_cast<typename Simd::vector const&>(both);
}

/// The same, but in rows of [columns, line of keys], each a whole line of words of neighbours in a column. The first
/// row goes to key `lead` of a line.
template <class Simd>
HEED_VERB void pack_key_lines(bfloat16 const* from, index_t row_stride, index_t column_stride, index_t lead,
                              index_t rows, index_t columns, float* to) noexcept {
  constexpr index_t line = Simd::words_per_line;
  const index_t whole = column_stride == 1 ? columns / Simd::lanes * Simd::lanes : 0;
  for (index_t first = -lead; first < rows; first += 2 * line, to += columns * line) {
    const auto row_at = [&](index_t row) __attribute__((always_inline)) {
      return row >= 0 && row < rows ? from + row * row_stride : nullptr;
    };
    for (index_t column = 0; column < whole; column += Simd::lanes) {
      typename Simd::vector square[Simd::lanes];
      HEED_UNROLL
      for (int word = 0; word < Simd::lanes; ++word) {
        bfloat16 const* const low = row_at(first + 2 * word);
        bfloat16 const* const high = row_at(first + 2 * word + 1);
        join_rows<Simd>(square[word], low == nullptr ? low : low + column, high == nullptr ? high : high + column);
      }
      transpose<Simd>(square);
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row) Simd::store(to + (column + row) * line, square[row]);
    }
    bfloat16* const words = reinterpret_cast<bfloat16*>(to);
    for (index_t column = whole; column < columns; ++column) {
      for (index_t key = 0; key < 2 * line; ++key) {
        bfloat16 const* const row = row_at(first + key);
        words[column * 2 * line + key] = row == nullptr ? bfloat16::from_bits(0) : row[column * column_stride];
      }
    }
  }
}

/// Rows of bfloat16: to words [rows / 2 and a half, stride] of neighbours in a column, 0 where there is nothing, and
/// one more row of zeros.
template <class Simd>
HEED_VERB void pair_rows(bfloat16 const* from, index_t row_stride, index_t column_stride, index_t rows, index_t columns,
                         index_t stride, float* to) noexcept {
  const index_t whole = column_stride == 1 ? columns / Simd::lanes * Simd::lanes : 0;
  for (index_t row = 0; row < rows + 2; row += 2, to += stride) {
    bfloat16 const* const low = row < rows ? from + row * row_stride : nullptr;
    bfloat16 const* const high = row + 1 < rows ? from + (row + 1) * row_stride : nullptr;
    for (index_t column = 0; column < whole; column += Simd::lanes) {
      typename Simd::vector words;
      join_rows<Simd>(words, low == nullptr ? low : low + column, high == nullptr ? high : high + column);
      Simd::store(to + column, words);
    }
    bfloat16* const words = reinterpret_cast<bfloat16*>(to);
    for (index_t column = whole; column < stride; ++column) {
      const bool inside = column < columns;
      words[2 * column] = inside && low != nullptr ? low[column * column_stride] : bfloat16::from_bits(0);
      words[2 * column + 1] = inside && high != nullptr ? high[column * column_stride] : bfloat16::from_bits(0);
    }
  }
}

/// The way back: from [rows, columns] to the caller's rows, each element rounded once.
template <class Simd>
HEED_VERB void unpack_rows(typename Simd::scalar const* from, index_t rows, index_t columns, void* to,
                           element_kind kind, index_t row_stride, index_t column_stride) noexcept {
  with_element(
      kind, [&](auto element) __attribute__((always_inline)) {
        using element_type = decltype(element);
        element_type* line = static_cast<element_type*>(to);
        const index_t whole = column_stride == 1 ? columns / Simd::lanes * Simd::lanes : 0;
        for (index_t row = 0; row < rows; ++row, line += row_stride, from += columns) {
          for (index_t column = 0; column < whole; column += Simd::lanes) {
            typename Simd::vector wide;
            Simd::load_unaligned(wide, from + column);
            narrow<Simd>(line + column, wide);
          }
          for (index_t column = whole; column < columns; ++column) {
            line[column * column_stride] = static_cast<element_type>(from[column]);
          }
        }
      });
}

// What scale does to words: pairs only take its sign; the verb softmax has the rest.
template <class Simd>
HEED_VERB void scale_words(typename Simd::vector& words, typename Simd::scalar scale) noexcept {
  if constexpr (Simd::elements_per_word == 1) {
    words *= scale;
  } else {
    using integers = typename Simd::integers;
    const int flipped = scale < 0 ? static_cast<int>(0x80008000u) : 0;
    const integers signed_words = reinterpret_cast<integers const&>(words) ^ flipped;
    words = reinterpret_cast<typename Simd::vector const&>(signed_words);
  }
}

/// Rows of Q [rows, row_stride], times scale: to a tile [columns, lanes], or [columns / 2, lanes, 2]. Lanes without a
/// row repeat the last one. Squares of whole vectors are transposed in registers.
template <class Simd>
HEED_VERB void pack_query(typename Simd::scalar const* from, index_t row_stride, index_t rows, index_t columns,
                          typename Simd::scalar scale, int vectors, typename Simd::scalar* to) noexcept {
  constexpr index_t step = Simd::columns_per_lane, square_columns = step * Simd::lanes;
  const index_t lanes = vectors * Simd::lanes;
  const index_t whole = columns / square_columns * square_columns;
  for (index_t lane = 0; lane < lanes; lane += Simd::lanes) {
    typename Simd::scalar const* line[std::size_t{Simd::lanes}];
    typename Simd::scalar const* next = from + lesser(lane, rows - 1) * row_stride;
    for (int row = 0; row < Simd::lanes; ++row, next += lane + row < rows ? row_stride : 0) line[row] = next;
    typename Simd::scalar* place = to + lane;
    for (index_t column = 0; column < whole; column += square_columns) {
      typename Simd::vector square[Simd::lanes];
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row) {
        Simd::load_unaligned(square[row], line[row] + column);
        scale_words<Simd>(square[row], scale);
      }
      transpose<Simd>(square);
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row, place += step * lanes) Simd::store(place, square[row]);
    }
    for (index_t column = whole; column < columns; column += step, place += step * lanes) {
      for (int row = 0; row < Simd::lanes; ++row) {
        typename Simd::vector word;
        Simd::splat(word, line[row] + column);
        scale_words<Simd>(word, scale);
        for (index_t i = 0; i < step; ++i) place[row * step + i] = word[i];
      }
    }
  }
}

/// A tile [columns, lanes], or [columns / 2, lanes, 2], each row times its factor: to rows [rows, row_stride]. Zeros
/// lose their sign: a sum that has underflowed to -0 keeps it or not by the sign of values that its row does not even
/// see.
template <class Simd>
HEED_VERB void unpack_tile(typename Simd::scalar const* from, typename Simd::scalar const* factor, int vectors,
                           index_t rows, index_t columns, typename Simd::scalar* to, index_t row_stride) noexcept {
  using Real = typename Simd::scalar;
  constexpr index_t step = Simd::columns_per_lane, square_columns = step * Simd::lanes;
  const index_t lanes = vectors * Simd::lanes;
  const index_t whole = columns / square_columns * square_columns;
  for (index_t lane = 0; lane < rows; lane += Simd::lanes) {
    typename Simd::vector times;
    Simd::load_rows(times, factor + lane);
    const index_t end = lesser(lane + Simd::lanes, rows);
    typename Simd::scalar const* place = from + lane;
    for (index_t column = 0; column < whole; column += square_columns) {
      typename Simd::vector square[Simd::lanes];
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row, place += step * lanes) {
        Simd::load(square[row], place);
        square[row] = (square[row] + Real(0)) * times;
      }
      transpose<Simd>(square);
      typename Simd::scalar* line = to + lane * row_stride + column;
      HEED_UNROLL
      for (int row = 0; row < Simd::lanes; ++row, line += row_stride) {
        if (lane + row < end) Simd::store_unaligned(line, square[row]);
      }
    }
    for (index_t row = lane; whole < columns && row < end; ++row) {
      for (index_t column = whole; column < columns; ++column) {
        const index_t at = column / step * step * lanes + row * step + column % step;
        to[row * row_stride + column] = (from[at] + Real(0)) * factor[row];
      }
    }
  }
}

}  // namespace heed::detail
