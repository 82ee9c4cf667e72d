// accumulate on tiles: O^T = O^T * rescale + V^T P^T, sixteen value dimensions and queries at a time.
#pragma once

#include "heed/cpu/read_ahead.hpp"
#include "heed/cpu/simd/bf16_tiles.hpp"

namespace heed::detail {

// out [rows, lanes] = out * rescale + sums [rows, sums_stride]; = sums, without `rescale`.
template <int Vectors>
HEED_VERB void join_rows(float* out, index_t rows, index_t lanes, float const* sums, index_t sums_stride,
                         float const* rescale) noexcept {
  for (index_t row = 0; row < rows; ++row, out += lanes) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      bf16_tiles::vector sum, before, factor;
      bf16_tiles::load(sum, sums + row * sums_stride + v * bf16_tiles::lanes);
      if (rescale != nullptr) {
        bf16_tiles::load(before, out + v * bf16_tiles::lanes);
        bf16_tiles::load(factor, rescale + v * bf16_tiles::lanes);
        sum = before * factor + sum;
      }
      bf16_tiles::store(out + v * bf16_tiles::lanes, sum);
    }
  }
}

// One tile of dimensions into one row of sums, from `start` on (null: from 0); the other goes to `before`, where the
// last tile belongs (null: there was none). At least one row of V.
template <bool Second, int Vectors>
HEED_VERB void accumulate_tile(float const* probabilities, float const* value, index_t value_stride, index_t rows,
                               index_t lanes, float const* start, float* before, index_t before_stride,
                               line_stream& ahead) noexcept {
  constexpr index_t line = bf16_tiles::words_per_line;
  using sums = tile_sums<Second, Vectors>;
  if (start == nullptr) {
    sums::clear();
  } else {
    sums::load(start, lanes);
  }
  for (index_t row = 0; row < rows; ++row) {
    sums::multiply_add(value, line, probabilities, lanes);
    if (row == 0 && before != nullptr) tile_sums<!Second, Vectors>::store(before, before_stride);
    value += value_stride;
    probabilities += line * lanes;
    ask_ahead(ahead, 2 * line);
  }
}

/// The verb accumulate, over rows of V of [head_dim, line of keys]. Each sum is one chain over the rows.
template <int Vectors>
HEED_VERB void tile_accumulate(float const* probabilities, float const* value, index_t value_stride, index_t rows,
                               index_t head_dim, index_t lanes, float const* start, float* out, float const* rescale,
                               line_stream ahead) noexcept {
  constexpr index_t line = bf16_tiles::words_per_line;
  constexpr index_t beside_stride = Vectors * bf16_tiles::lanes;
  if (rows == 0) {
    alignas(64) const float nothing[std::size_t{beside_stride}] = {};
    return join_rows<Vectors>(out, head_dim, lanes, start == nullptr ? nothing : start, start == nullptr ? 0 : lanes,
                              rescale);
  }
  // Tiles are stored to `out`, or beside it if what is there stays: then they are joined while the next one is
  // multiplied.
  alignas(64) float beside[2][std::size_t{tile_rows * beside_stride}];
  const bool joins = rescale != nullptr;
  const index_t stride = joins ? beside_stride : lanes;
  const index_t whole = head_dim / tile_rows * tile_rows;
  float* before = nullptr;
  bool second = false;
  if (whole > 0) open_tiles(tile_shapes(tile_rows));
  for (index_t dim = 0; dim < whole; dim += tile_rows) {
    float const* const from = start == nullptr ? nullptr : start + dim * lanes;
    if (second) {
      accumulate_tile<true, Vectors>(probabilities, value + dim * line, value_stride, rows, lanes, from, before, stride,
                                     ahead);
    } else {
      accumulate_tile<false, Vectors>(probabilities, value + dim * line, value_stride, rows, lanes, from, before,
                                      stride, ahead);
    }
    if (joins && before != nullptr) {
      join_rows<Vectors>(out + (dim - tile_rows) * lanes, tile_rows, lanes, before, stride, rescale);
    }
    before = joins ? beside[second ? 1 : 0] : out + dim * lanes;
    second = !second;
  }
  if (second) {
    tile_sums<false, Vectors>::store(before, stride);
  } else if (whole > 0) {
    tile_sums<true, Vectors>::store(before, stride);
  }
  if (joins && whole > 0) {
    join_rows<Vectors>(out + (whole - tile_rows) * lanes, tile_rows, lanes, before, stride, rescale);
  }
  if (whole < head_dim) {
    float* const sums = joins ? beside[0] : out + whole * lanes;
    open_tiles(tile_shapes(head_dim - whole));
    accumulate_tile<false, Vectors>(probabilities, value + whole * line, value_stride, rows, lanes,
                                    start == nullptr ? nullptr : start + whole * lanes, nullptr, 0, ahead);
    tile_sums<false, Vectors>::store(sums, stride);
    if (joins) join_rows<Vectors>(out + whole * lanes, head_dim - whole, lanes, sums, stride, rescale);
  }
  close_tiles();
}

}  // namespace heed::detail
