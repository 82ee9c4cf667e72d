// scores on tiles: S^T = K Q^T for one block of keys and one tile of queries, sixteen keys and queries at a time.
#pragma once

#include "heed/cpu/read_ahead.hpp"
#include "heed/cpu/simd/bf16_tiles.hpp"

namespace heed::detail {

// highest = max(highest, `rows` rows of scores).
template <int Vectors>
HEED_VERB void raise_maximum(bf16_tiles::vector (&highest)[std::size_t{Vectors}], float const* scores, index_t rows,
                             index_t lanes) noexcept {
  for (index_t row = 0; row < rows; ++row, scores += lanes) {
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      bf16_tiles::vector score;
      bf16_tiles::load(score, scores + v * bf16_tiles::lanes);
      bf16_tiles::larger(highest[v], score, highest[v]);
    }
  }
}

// One tile of keys, into one row of sums; the other goes to `before`, where the last tile belongs (null: there was
// none).
template <bool Second, int Vectors>
HEED_VERB void score_tile(float const* query, float const* key, index_t key_stride, index_t words, index_t lanes,
                          float* before, line_stream& ahead) noexcept {
  constexpr index_t line = bf16_tiles::words_per_line;
  using sums = tile_sums<Second, Vectors>;
  sums::clear();
  for (index_t word = 0; word < words; word += line) {
    sums::multiply_add(key + word, key_stride, query + word * lanes, lanes);
    if (word == 0 && before != nullptr) tile_sums<!Second, Vectors>::store(before, lanes);
    ask_ahead(ahead, 2 * line);
  }
}

/// The verb scores. Each score is one chain over the lines of head_dim, whatever the tile it stands in. The last tile
/// may take up keys of the one before it once more: the same values.
template <int Vectors>
HEED_VERB void tile_scores(float const* query, float const* key, index_t key_stride, index_t keys, index_t words,
                           index_t lanes, float* scores, float const* row_max, float* block_max,
                           line_stream ahead) noexcept {
  const index_t rows = lesser(keys, tile_rows);
  open_tiles(tile_shapes(rows));
  bf16_tiles::vector highest[std::size_t{Vectors}];
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) bf16_tiles::load(highest[v], row_max + v * bf16_tiles::lanes);
  float* before = nullptr;
  bool second = false;
  index_t seen = 0;  // keys that are in `highest`
  for (index_t done = 0; done < keys; done += rows) {
    const index_t first = lesser(done, keys - rows);
    char const* const start = ahead.next;
    if (second) {
      score_tile<true, Vectors>(query, key + first * key_stride, key_stride, words, lanes, before, ahead);
    } else {
      score_tile<false, Vectors>(query, key + first * key_stride, key_stride, words, lanes, before, ahead);
    }
    ahead.begin_next_group(start);
    second = !second;
    before = scores + first * lanes;
    // Those that were stored one tile ago.
    const index_t stored = greater(done - rows, 0);
    raise_maximum<Vectors>(highest, scores + seen * lanes, stored - seen, lanes);
    seen = stored;
  }
  if (second) {
    tile_sums<false, Vectors>::store(before, lanes);
  } else {
    tile_sums<true, Vectors>::store(before, lanes);
  }
  raise_maximum<Vectors>(highest, scores + seen * lanes, keys - seen, lanes);
  close_tiles();
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) bf16_tiles::store(block_max + v * bf16_tiles::lanes, highest[v]);
}

}  // namespace heed::detail
