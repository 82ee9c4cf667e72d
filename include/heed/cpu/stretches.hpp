// A block of scores that a rule hides in part, cut into stretches of keys that are alike.
#pragma once

#include "heed/base/power_of_2.hpp"
#include "heed/cpu/table.hpp"
#include "heed/cpu/tuning.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Keys [key_begin, key_end) of a block. `none`: no row sees any. Otherwise only the rows in vectors
/// [first_vector, end_vector) of the tile see some.
struct stretch {
  index_t key_begin = 0;
  index_t key_end = 0;
  cover seen = cover::none;
  int first_vector = 0;
  int end_vector = 0;

  [[nodiscard]] bool is_alike(stretch const& other) const noexcept {
    return seen == other.seen && first_vector == other.first_vector && end_vector == other.end_vector;
  }
};

/// The stretches of a block, in the order of the keys.
struct stretches {
  stretch const* items;
  int count;
};

/// The same, being made.
struct stretch_list {
  stretch items[largest_block_keys / keys_per_question + 1];
  int count = 0;

  void add(stretch const& next) noexcept {
    if (count > 0 && items[count - 1].is_alike(next)) {
      items[count - 1].key_end = next.key_end;
    } else {
      items[count++] = next;
    }
  }
};

/// The rows of one vector of a tile, as a block of their own.
[[nodiscard]] inline block vector_of(block area, int vector, int lanes) noexcept {
  area.query_begin += vector * lanes;
  area.query_end = lesser(area.query_begin + lanes, area.query_end);
  return area;
}

/// Asks the rule about few keys at a time, whole lines of them, and about the first and last rows where it hides some.
[[nodiscard]] inline stretch_list stretches_of(rule_view const& rule, block const& area, int vectors, int lanes,
                                               int keys_per_line) {
  const index_t step = greater(keys_per_question, keys_per_line);
  stretch_list list;
  for (index_t begin = area.key_begin; begin < area.key_end;) {
    block part = area;
    part.key_begin = begin;
    part.key_end = lesser(round_down_pow2(begin, step) + step, area.key_end);
    stretch next{begin, part.key_end, rule.covers(part), 0, vectors};
    const auto sees_none = [&](int vector) { return rule.covers(vector_of(part, vector, lanes)) == cover::none; };
    if (next.seen == cover::partial) {
      while (next.first_vector + 1 < next.end_vector && sees_none(next.first_vector)) ++next.first_vector;
      while (next.end_vector - 1 > next.first_vector && sees_none(next.end_vector - 1)) --next.end_vector;
    }
    list.add(next);
    begin = part.key_end;
  }
  return list;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
