// How a forward call should be cut into pieces of work, worked out tile by tile.
#pragma once

#include <algorithm>
#include <vector>

#include "heed/base/index.hpp"

namespace heed::test {

/// Query rows of one head.
struct head_rows {
  index_t batch, head, begin, end;
};

/// All rows of every head.
[[nodiscard]] inline std::vector<head_rows> whole_heads(index_t batch_size, index_t heads, index_t rows) {
  std::vector<head_rows> all;
  for (index_t b = 0; b < batch_size; ++b) {
    for (index_t h = 0; h < heads; ++h) all.push_back({b, h, 0, rows});
  }
  return all;
}

/// What of a call decides how it is cut.
struct cut_facts {
  index_t batch, kv_heads, heads_of_kv_head, rows, keys, dims;  // dims: of K and V together
  index_t lanes, real_bytes;
  index_t threads;
  bool with_weights;
  index_t key_bytes, value_bytes;  // of one kv head, if packed
  bool packs_key, packs_value;     // not used where they lie
};

/// A piece of work is some heads of a kv head times some neighbouring tiles, of up to three vectors of query rows each.
class expected_cut {
 public:
  explicit expected_cut(cut_facts const& of) : of_(of) {
    // 384 rows and 640 KiB of scratch; 1 MiB of weights, unless one tile has more.
    const index_t tile_rows = 3 * of.lanes;
    index_t together = std::min(384 / tile_rows, 640 * 1024 / (tile_rows * (of.dims + 3) * of.real_bytes));
    const index_t weights_bytes = tile_rows * std::max<index_t>(1, of.keys) * of.real_bytes;
    if (of.with_weights && weights_bytes <= 1024 * 1024) together = std::min(together, 1024 * 1024 / weights_bytes);
    together = std::max<index_t>(together, 1);
    tiles_per_head_ = rounded_up(rounded_up(of.rows, of.lanes), 3);
    heads_together_ = std::min(of.heads_of_kv_head, together);
    tiles_together_ = std::clamp<index_t>(together / heads_together_, 1, tiles_per_head_);
    if (of.threads > 1) {
      // Two tiles for each thread at least, and four pieces.
      while (heads_together_ > 1 && tiles() < 2 * of.threads) heads_together_ = rounded_up(heads_together_, 2);
      tiles_together_ = std::clamp<index_t>(tiles() / (4 * of.threads), 1, tiles_together_);
    }
    // K and V that several pieces of work need, and that are not larger than 16 MiB, are packed for all of them.
    constexpr index_t most_bytes = 16 * 1024 * 1024;
    const index_t piece_rows = heads_together_ * tiles_together_ * tile_rows;
    packs_once_ = of.heads_of_kv_head * of.rows > piece_rows && of.key_bytes + of.value_bytes <= most_bytes;
    const index_t bytes = (of.packs_key ? of.key_bytes : 0) + (of.packs_value ? of.value_bytes : 0);
    heads_per_wave_ = of.batch * of.kv_heads;
    if (packs_once_ && bytes > 0) {
      heads_per_wave_ = of.threads == 1 ? 1 : std::clamp<index_t>(most_bytes / bytes, 1, heads_per_wave_);
    }
  }

  [[nodiscard]] bool packs_once() const { return packs_once_; }

  /// The rows of each head in each piece, in the order in which the pieces are taken.
  [[nodiscard]] std::vector<head_rows> pieces() const {
    std::vector<head_rows> all;
    const index_t kv_heads = of_.batch * of_.kv_heads;
    for (index_t first = 0; first < kv_heads; first += heads_per_wave_) {
      add_wave(first, std::min(first + heads_per_wave_, kv_heads), all);
    }
    return all;
  }

 private:
  /// A tile of some heads of a kv head.
  struct group_tile {
    index_t group, batch, first_head, end_head, begin, end;
  };

  [[nodiscard]] static index_t rounded_up(index_t count, index_t of_which) { return (count + of_which - 1) / of_which; }
  [[nodiscard]] index_t groups_per_kv_head() const { return rounded_up(of_.heads_of_kv_head, heads_together_); }
  [[nodiscard]] index_t tiles() const { return of_.batch * of_.kv_heads * groups_per_kv_head() * tiles_per_head_; }

  /// The rows at which the tiles of a head begin, and the last one ends: three vectors each. If one is lacking, it is
  /// in the first tile, a second one in that in the middle.
  [[nodiscard]] std::vector<index_t> tile_bounds() const {
    std::vector<index_t> vectors(static_cast<std::size_t>(tiles_per_head_), 3);
    const index_t lacking = 3 * tiles_per_head_ - rounded_up(of_.rows, of_.lanes);
    if (lacking > 0) --vectors.front();
    if (lacking > 1) --vectors[vectors.size() / 2];
    std::vector<index_t> bounds{0};
    for (index_t count : vectors) bounds.push_back(std::min(bounds.back() + count * of_.lanes, of_.rows));
    return bounds;
  }

  /// The tiles of kv heads [first, end): group by group, the last rows of each first.
  [[nodiscard]] std::vector<group_tile> tiles_of_wave(index_t first, index_t end) const {
    std::vector<group_tile> tiles;
    const std::vector<index_t> bounds = tile_bounds();
    index_t group = 0;
    for (index_t kv_head = first; kv_head < end; ++kv_head) {
      const index_t before = kv_head % of_.kv_heads * of_.heads_of_kv_head;
      for (index_t head = 0; head < of_.heads_of_kv_head; head += heads_together_, ++group) {
        const index_t end_head = std::min(head + heads_together_, of_.heads_of_kv_head);
        for (auto last = bounds.rbegin(); last + 1 != bounds.rend(); ++last) {
          tiles.push_back({group, kv_head / of_.kv_heads, before + head, before + end_head, last[1], last[0]});
        }
      }
    }
    return tiles;
  }

  /// Whole pieces, as long as a piece of tiles is left behind them for every other thread. These are taken one by one.
  void add_wave(index_t first, index_t end, std::vector<head_rows>& all) const {
    const std::vector<group_tile> tiles = tiles_of_wave(first, end);
    bool one_by_one = false;
    for (auto next = tiles.begin(); next != tiles.end();) {
      auto piece_end = next;
      while (piece_end != tiles.end() && piece_end->group == next->group && piece_end - next < tiles_together_) {
        ++piece_end;
      }
      one_by_one = one_by_one || tiles.end() - piece_end < (of_.threads - 1) * tiles_together_;
      if (one_by_one) piece_end = next + 1;
      for (index_t head = next->first_head; head < next->end_head; ++head) {
        all.push_back({next->batch, head, (piece_end - 1)->begin, next->end});
      }
      next = piece_end;
    }
  }

  cut_facts of_;
  index_t tiles_per_head_ = 1, heads_together_ = 1, tiles_together_ = 1, heads_per_wave_ = 1;
  bool packs_once_ = false;
};

}  // namespace heed::test
