// key_gradients on tiles: sixteen keys and columns at a time.
#pragma once

#include "heed/cpu/simd/bf16_tiles.hpp"
#include "heed/cpu/verb/key_gradients.hpp"

namespace heed::detail {

// All columns of one tile of keys, `Columns` tiles of them beside each other.
template <int Columns>
HEED_VERB void add_tiles_to_keys(float const* tile, index_t tile_stride, float const* from, index_t words, index_t line,
                                 index_t stride, float* to) noexcept {
  using sums = tile_row<0, std::make_integer_sequence<int, Columns>>;
  sums::load(to, stride);
  for (index_t word = 0; word < words; word += line) {
    sums::multiply_add(tile + word, tile_stride, from + word * stride, stride);
  }
  sums::store(to, stride);
}

/// The verb key_gradients. Each sum is one chain over the lines of query rows. A last line that is not full takes up
/// what lies behind: zeros in `from`.
HEED_VERB void tile_key_gradients(float const* tile, index_t tile_stride, index_t keys, float const* from,
                                  index_t words, index_t stride, float* to) noexcept {
  constexpr index_t columns = bf16_tiles::lanes;
  const index_t line = line_of_rows<bf16_tiles>(words);
  index_t shape = 0;
  for (index_t key = 0; key < keys; key += tile_rows, tile += tile_rows * tile_stride, to += tile_rows * stride) {
    const index_t rows = lesser(tile_rows, keys - key);
    if (rows != shape) open_tiles(tile_shapes(rows, line));
    shape = rows;
    index_t column = 0;
    for (; column + 4 * columns <= stride; column += 4 * columns) {
      add_tiles_to_keys<4>(tile, tile_stride, from + column, words, line, stride, to + column);
    }
    for (; column < stride; column += columns) {
      add_tiles_to_keys<1>(tile, tile_stride, from + column, words, line, stride, to + column);
    }
  }
  close_tiles();
}

}  // namespace heed::detail
