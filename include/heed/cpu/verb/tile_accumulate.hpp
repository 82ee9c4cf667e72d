// accumulate on tiles: O^T = O^T * rescale + V^T P^T, sixteen value dimensions and queries at a time.
#pragma once

#include "heed/cpu/read_ahead.hpp"
#include "heed/cpu/simd/bf16_tiles.hpp"

namespace heed::detail {

// out [rows, lanes] times the factors; without them it becomes 0, for nothing is in it yet.
template <int Vectors>
HEED_VERB void rescale_rows(float* out, index_t rows, index_t lanes, bool is_fresh,
                            bf16_tiles::vector const (&factors)[std::size_t{Vectors}]) noexcept {
  for (index_t row = 0; row < rows; ++row, out += lanes) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      bf16_tiles::vector sum{};
      if (!is_fresh) {
        bf16_tiles::load(sum, out + v * bf16_tiles::lanes);
        sum *= factors[v];
      }
      bf16_tiles::store(out + v * bf16_tiles::lanes, sum);
    }
  }
}

// One tile of dimensions, rescaled already, into one row of sums; the other goes to `before`, where the last tile
// belongs (null: there was none). At least one row of V.
template <bool Second, int Vectors>
HEED_VERB void accumulate_tile(float const* probabilities, float const* value, index_t value_stride, index_t rows,
                               index_t lanes, float const* out, float* before, line_stream& ahead) noexcept {
  constexpr index_t line = bf16_tiles::words_per_line;
  using sums = tile_sums<Second, Vectors>;
  sums::load(out, lanes);
  for (index_t row = 0; row < rows; ++row) {
    sums::multiply_add(value, line, probabilities, lanes);
    if (row == 0 && before != nullptr) tile_sums<!Second, Vectors>::store(before, lanes);
    value += value_stride;
    probabilities += line * lanes;
    ask_ahead(ahead, 2 * line);
  }
}

/// The verb accumulate, over rows of V of [head_dim, line of keys]. Each output is one chain over the rows.
template <int Vectors>
HEED_VERB void tile_accumulate(float const* probabilities, float const* value, index_t value_stride, index_t rows,
                               index_t head_dim, index_t lanes, float* out, float const* rescale,
                               line_stream ahead) noexcept {
  constexpr index_t line = bf16_tiles::words_per_line;
  bf16_tiles::vector factors[std::size_t{Vectors}]{};
  if (rescale != nullptr) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) bf16_tiles::load(factors[v], rescale + v * bf16_tiles::lanes);
  }
  if (rows == 0) return rescale_rows<Vectors>(out, head_dim, lanes, rescale == nullptr, factors);
  const index_t whole = head_dim / tile_rows * tile_rows;
  rescale_rows<Vectors>(out, lesser(head_dim, tile_rows), lanes, rescale == nullptr, factors);
  float* before = nullptr;
  bool second = false;
  if (whole > 0) open_tiles(tile_shapes(tile_rows));
  for (index_t dim = 0; dim < whole; dim += tile_rows) {
    float* const sums = out + dim * lanes;
    if (second) {
      accumulate_tile<true, Vectors>(probabilities, value + dim * line, value_stride, rows, lanes, sums, before, ahead);
    } else {
      accumulate_tile<false, Vectors>(probabilities, value + dim * line, value_stride, rows, lanes, sums, before,
                                      ahead);
    }
    second = !second;
    before = sums;
    // Those of the next tile, while this one is still being multiplied.
    const index_t next = dim + tile_rows;
    rescale_rows<Vectors>(out + next * lanes, lesser(head_dim - next, tile_rows), lanes, rescale == nullptr, factors);
  }
  if (second) {
    tile_sums<false, Vectors>::store(before, lanes);
  } else if (whole > 0) {
    tile_sums<true, Vectors>::store(before, lanes);
  }
  if (whole < head_dim) {
    float* const sums = out + whole * lanes;
    open_tiles(tile_shapes(head_dim - whole));
    accumulate_tile<false, Vectors>(probabilities, value + whole * line, value_stride, rows, lanes, sums, nullptr,
                                    ahead);
    tile_sums<false, Vectors>::store(sums, lanes);
  }
  close_tiles();
}

}  // namespace heed::detail
