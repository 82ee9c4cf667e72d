// How many blocks of scores a combination should skip, compute whole and look into, and how many scores it should look
// at one by one: from who hides which score, and from what is promised of the masks' answers for blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "support/combination.hpp"
#include "support/expected_pieces.hpp"

namespace heed::test {

/// How the rows of a piece of work are cut.
struct tile_shape {
  index_t lanes;  // query rows in one vector
  index_t keys_per_question;
  bool is_few;        // all rows of a head are one tile, and masks answer for whole blocks only
  bool shows_hidden;  // what masks hide is computed as well
};

struct block_tally {
  index_t skipped = 0, full = 0, partial = 0;
  index_t masked = 0;  // scores at which masks are evaluated, where no stage is
  index_t staged = 0;  // scores at which stages are evaluated
  index_t scores = 0;  // computed and attended
  index_t shown = 0;   // computed, where what masks hide is
};

/// The scores of a combination and the masks that hide them.
class hidden_scores {
 public:
  /// `asks_always`: one of the masks has no answer for blocks.
  hidden_scores(combination const& given, bool asks_always);

  /// Tiles do not cross pieces of work.
  [[nodiscard]] block_tally count(tile_shape const& shape, std::vector<head_rows> const& pieces) const;
  /// Scores that no mask hides.
  [[nodiscard]] index_t visible() const { return visible_; }
  /// Documents that come in several parts, or whose rows have ids of their own, are known by the range of their ids:
  /// the tally leaves them out, and as many blocks may be skipped as it says, or more.
  [[nodiscard]] bool is_exact() const { return is_exact_; }

 private:
  struct area;
  struct columns;

  [[nodiscard]] std::uint32_t at(index_t batch, index_t head, index_t row, index_t key) const {
    scenario const& s = given_.sizes;
    return bits_[static_cast<std::size_t>(((batch * s.heads + head) * s.rows + row) * s.keys + key)];
  }
  [[nodiscard]] bool is_border(index_t batch, index_t row) const;
  void count_tile(area const& tile, tile_shape const& shape, block_tally& tally) const;

  combination const& given_;
  std::vector<reference::limits> limits_;
  std::vector<std::uint32_t> bits_;  // the parts that hide a score
  index_t visible_ = 0;
  bool asks_always_, is_exact_ = true;
  std::uint32_t answering_ = 0;  // masks that say of a block that they hide all of it
};

inline constexpr index_t keys_per_block = 128;  // for rows of up to 1 KiB

[[nodiscard]] constexpr std::uint32_t bit(part one) { return 1u << static_cast<int>(one); }
/// Masks that know outside of which keys a tile sees nothing.
inline constexpr std::uint32_t ranged =
    bit(part::causal) | bit(part::window) | bit(part::prefix) | bit(part::documents);

/// Whether each document is in one piece.
[[nodiscard]] inline bool are_gathered(std::vector<index_t> const& ids, index_t each) {
  for (auto begin = ids.begin(); begin != ids.end(); begin += each) {
    if (!std::is_sorted(begin, begin + each) && !std::is_sorted(begin, begin + each, std::greater<>())) return false;
  }
  return true;
}

/// Rows of one head, and the keys that exist for them.
struct hidden_scores::area {
  index_t batch, head, row_begin, row_end, key_begin, key_end;
};

/// For each key the masks that hide it from all rows of a tile, or of one vector of them, and from any row.
struct hidden_scores::columns {
  std::vector<std::uint32_t> all, any;
  std::vector<std::vector<std::uint32_t>> all_of_vector;

  columns(hidden_scores const& scores, area const& tile, index_t lanes) {
    const index_t keys = scores.given_.sizes.keys, vectors = (tile.row_end - tile.row_begin + lanes - 1) / lanes;
    const std::vector<std::uint32_t> ones(static_cast<std::size_t>(keys), ~0u);
    all = ones;
    any.assign(ones.size(), 0);
    all_of_vector.assign(static_cast<std::size_t>(vectors), ones);
    for (index_t row = tile.row_begin; row < tile.row_end; ++row) {
      std::vector<std::uint32_t>& own = all_of_vector[static_cast<std::size_t>((row - tile.row_begin) / lanes)];
      for (index_t key = tile.key_begin; key < tile.key_end; ++key) {
        const std::uint32_t hiding = scores.at(tile.batch, tile.head, row, key);
        const auto place = static_cast<std::size_t>(key);
        all[place] &= hiding, any[place] |= hiding, own[place] &= hiding;
      }
    }
  }

  [[nodiscard]] static std::uint32_t common(std::vector<std::uint32_t> const& of, index_t begin, index_t end) {
    std::uint32_t bits = ~0u;
    for (index_t key = begin; key < end; ++key) bits &= of[static_cast<std::size_t>(key)];
    return bits;
  }
  [[nodiscard]] std::uint32_t hiding_any(index_t begin, index_t end) const {
    std::uint32_t bits = 0;
    for (index_t key = begin; key < end; ++key) bits |= any[static_cast<std::size_t>(key)];
    return bits;
  }
};

inline hidden_scores::hidden_scores(combination const& given, bool asks_always)
    : given_(given), asks_always_(asks_always) {
  scenario const& s = given.sizes;
  bits_.resize(static_cast<std::size_t>(s.batch * s.heads * s.rows * s.keys));
  for (index_t b = 0; b < s.batch; ++b) {
    limits_.push_back(given.limits(b));
    reference::limits const& exists = limits_.back();
    for (index_t h = 0; h < s.heads; ++h) {
      for (index_t i = 0; i < exists.query_len; ++i) {
        for (index_t j = exists.key_begin; j < exists.key_end; ++j) {
          const std::uint32_t hiding = given.hidden_by({b, h, i, j, exists.offset}, exists).bits;
          bits_[static_cast<std::size_t>(((b * s.heads + h) * s.rows + i) * s.keys + j)] = hiding;
          visible_ += hiding == 0;
        }
      }
    }
  }
  answering_ = ~bit(part::functor_elsewhere);
  if (given.these.has(part::documents)) {
    is_exact_ = !given.data.with_query_ids && are_gathered(given.data.ids, s.keys);
  }
  if (!is_exact_) answering_ &= ~bit(part::documents);
}

/// Whether documents or blocks treat a row otherwise than the one before it.
inline bool hidden_scores::is_border(index_t batch, index_t row) const {
  rule_data const& data = given_.data;
  scenario const& s = given_.sizes;
  if (given_.these.has(part::block_sparse) && data.blocks.view().extent(2) > 1 && row % data.block_rows == 0) {
    return true;
  }
  if (!given_.these.has(part::documents)) return false;
  std::vector<index_t> const& ids = data.with_query_ids ? data.query_ids : data.ids;
  const index_t each = data.with_query_ids ? s.rows : s.keys;
  const index_t first = static_cast<index_t>(ids.size()) == each ? 0 : batch * each;
  const reference::detail::wide shift = data.with_query_ids ? 0 : limits_[static_cast<std::size_t>(batch)].offset;
  const auto document = [&](index_t of) -> std::optional<index_t> {
    const reference::detail::wide place = shift + of;
    if (place < 0 || place >= each) return std::nullopt;
    return ids[static_cast<std::size_t>(first + static_cast<index_t>(place))];
  };
  return document(row) != document(row - 1);
}

inline void hidden_scores::count_tile(area const& tile, tile_shape const& shape, block_tally& tally) const {
  const columns hiding(*this, tile, shape.lanes);
  const index_t rows = tile.row_end - tile.row_begin;
  const auto place = [](index_t key) { return static_cast<std::size_t>(key); };
  const auto answer = [&](std::uint32_t all, std::uint32_t any) {
    if ((all & answering_) != 0) return cover::none;
    return any == 0 && !asks_always_ ? cover::full : cover::partial;
  };
  key_range keys{tile.key_begin, tile.key_end};
  if (keys.begin < keys.end) tally.shown += rows * (keys.end - keys.begin);
  const std::uint32_t narrowing = shape.shows_hidden ? 0 : ranged & answering_;
  while (keys.begin < keys.end && (hiding.all[place(keys.begin)] & narrowing) != 0) ++keys.begin;
  while (keys.begin < keys.end && (hiding.all[place(keys.end - 1)] & narrowing) != 0) --keys.end;

  const auto compute = [&](index_t some_rows, index_t count, cover seen) {
    const index_t looked_at = shape.shows_hidden ? rows : some_rows;
    tally.scores += some_rows * count;
    tally.staged += looked_at * count;
    if (seen == cover::partial || (shape.shows_hidden && !shape.is_few)) tally.masked += looked_at * count;
  };
  for (index_t block_begin = 0; block_begin < given_.sizes.keys; block_begin += keys_per_block) {
    const index_t begin = std::max(block_begin, keys.begin), end = std::min(block_begin + keys_per_block, keys.end);
    const cover seen =
        begin < end ? answer(columns::common(hiding.all, begin, end), hiding.hiding_any(begin, end)) : cover::none;
    tally.skipped += seen == cover::none;
    tally.full += seen == cover::full;
    tally.partial += seen == cover::partial;
    if (seen == cover::none) continue;
    if (shape.is_few || seen == cover::full) {
      compute(rows, end - begin, seen);
      continue;
    }
    for (index_t from = begin; from < end;) {
      const index_t to = std::min((from / shape.keys_per_question + 1) * shape.keys_per_question, end);
      const cover part_seen = answer(columns::common(hiding.all, from, to), hiding.hiding_any(from, to));
      // Only the rows between the first and the last vector that sees something.
      index_t first = 0, last = static_cast<index_t>(hiding.all_of_vector.size());
      const auto sees_none = [&](index_t vector) {
        return (columns::common(hiding.all_of_vector[place(vector)], from, to) & answering_) != 0;
      };
      while (part_seen == cover::partial && first + 1 < last && sees_none(first)) ++first;
      while (part_seen == cover::partial && first + 1 < last && sees_none(last - 1)) --last;
      if (part_seen != cover::none) {
        compute(std::min(rows, last * shape.lanes) - first * shape.lanes, to - from, part_seen);
      }
      from = to;
    }
  }
}

inline block_tally hidden_scores::count(tile_shape const& shape, std::vector<head_rows> const& pieces) const {
  block_tally tally;
  for (auto const& [batch, head, begin, given_end] : pieces) {
    reference::limits const& exists = limits_[static_cast<std::size_t>(batch)];
    const index_t end = std::min(given_end, exists.query_len);
    const auto tile = [&](index_t first, index_t last) {
      count_tile({batch, head, first, last, exists.key_begin, exists.key_end}, shape, tally);
    };
    if (shape.is_few) {
      if (begin < end) tile(begin, end);
      continue;
    }
    // Tiles end where rows that are treated alike do, if these fill two vectors.
    for (index_t segment = begin, alike = begin, row = begin + 1; row <= end; ++row) {
      if (row < end && !is_border(batch, row)) continue;
      const bool is_end = row == end || row - alike >= 2 * shape.lanes;
      alike = row;
      while (is_end && segment < row) {
        // Three vectors, but two and two for the rest of four.
        const index_t vectors = (row - segment + shape.lanes - 1) / shape.lanes;
        const index_t tile_end = std::min(row, segment + (vectors == 4 ? 2 : 3) * shape.lanes);
        tile(segment, tile_end);
        segment = tile_end;
      }
    }
  }
  return tally;
}

}  // namespace heed::test
