// What a rule says about blocks, strips and borders, against the answers for each of their scores.
#pragma once

#include <gtest/gtest.h>

#include "heed/mask/strip.hpp"
#include "heed/reference/visible.hpp"
#include "support/random.hpp"

namespace heed::test {

enum class precision { exact, sound };

inline constexpr index_t rows = 13, keys = 29, batch_size = 2, heads = 3;  // of the buffers

/// Every score of a block must agree with what `mask` says about the block, and about strips of it, and with the
/// reference's own reading of `rule`, which `mask` is, or was made of.
template <class Mask, class Rule>
cover check_block(Mask const& mask, Rule const& rule, block const& area, precision wanted) {
  const cover said = mask.covers(area);
  const key_range range = detail::visible_keys(mask, area);
  const reference::limits sizes{rows, 0, keys, area.offset, rows, keys};
  bool any_visible = false, any_hidden = false;
  for (index_t key = area.key_begin; key < area.key_end; ++key) {
    const auto lanes = detail::on(
        mask, detail::strip<float>{area.batch, area.head, area.query_begin, area.query_end - 1, key, area.offset});
    for (index_t row = area.query_begin; row < area.query_end; ++row) {
      const position at{area.batch, area.head, row, key, area.offset};
      const bool visible = mask.allows(at);
      EXPECT_EQ(visible, reference::is_visible(rule, at, sizes))
          << "row " << row << " key " << key << " off " << area.offset;
      EXPECT_EQ(visible, detail::allows(lanes, static_cast<int>(row - area.query_begin)))
          << "row " << row << " of a strip from " << area.query_begin << " key " << key << " off " << area.offset;
      (visible ? any_visible : any_hidden) = true;
      if (visible) {
        EXPECT_TRUE(key >= range.begin && key < range.end) << "key " << key << " is visible and outside the range";
      }
    }
  }
  const cover truth = any_visible && any_hidden ? cover::partial : (any_visible ? cover::full : cover::none);
  if (wanted == precision::exact || said != cover::partial) {
    EXPECT_EQ(said, truth) << "rows " << area.query_begin << ".." << area.query_end << " keys " << area.key_begin
                           << ".." << area.key_end << " off " << area.offset;
  }
  EXPECT_LE(area.key_begin, range.begin);
  EXPECT_GE(area.key_end, range.end);
  return truth;
}
template <class Mask>
cover check_block(Mask const& mask, block const& area, precision wanted) {
  return check_block(mask, mask, area, wanted);
}

/// Rows up to the border see the same keys.
template <class Mask>
void check_border(Mask const& mask, block const& area) {
  const index_t border = detail::next_border(mask, area);
  EXPECT_GT(border, area.query_begin);
  EXPECT_LE(border, area.query_end);
  for (index_t row = area.query_begin + 1; row < border; ++row) {
    for (index_t key = area.key_begin; key < area.key_end; ++key) {
      EXPECT_EQ(mask.allows({area.batch, area.head, row, key, area.offset}),
                mask.allows({area.batch, area.head, area.query_begin, key, area.offset}))
          << "row " << row << " key " << key << " border " << border;
    }
  }
}

inline block random_block(random_source& random, index_t offset) {
  block area{};
  area.batch = random.between(0, batch_size - 1);
  area.head = random.between(0, heads - 1);
  area.query_begin = random.between(0, rows - 1);
  area.query_end = random.between(area.query_begin + 1, rows);
  area.key_begin = random.between(0, keys - 1);
  area.key_end = random.between(area.key_begin + 1, keys);
  area.offset = offset;
  return area;
}

inline index_t random_offset(random_source& random) {
  if (random.chance(0.1)) {
    return random.pick({INT64_MAX, INT64_MAX - 1, INT64_MAX - 20, INT64_MIN, INT64_MIN + 1, INT64_MIN + 20});
  }
  return random.between(-rows - 2, keys + 2);
}

}  // namespace heed::test
