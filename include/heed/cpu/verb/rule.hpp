// rule: the caller's mask over a block that it leaves partly visible.
#pragma once

#include <type_traits>

#include "heed/cpu/simd/vector.hpp"
#include "heed/mask/mask.hpp"

namespace heed::detail {

/// Hides scores [keys, lanes], `vectors` of them, of the block's rows and keys with -inf; block_max = max(row_max, what
/// is left). Lanes past the last row repeat it: no rule is asked about a row that does not exist.
template <class Simd, class Rule>
HEED_VERB void apply_rule(Rule const& given, typename Simd::scalar* scores, index_t lanes, int vectors,
                          block const& area, typename Simd::scalar const* row_max, typename Simd::scalar* block_max) {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  // A copy, because stores to the scores might otherwise change what a reference stands for.
  using local = std::conditional_t<std::is_trivially_copyable_v<Rule>, const Rule, Rule const&>;
  local rule = given;
  const index_t last = area.query_end - 1;
  for (int v = 0; v < vectors; ++v) {
    const index_t first = area.query_begin + v * Simd::lanes;
    vector highest;
    Simd::load(highest, row_max + v * Simd::lanes);
    for (index_t key = area.key_begin; key < area.key_end; ++key) {
      Real* const place = scores + (key - area.key_begin) * lanes + v * Simd::lanes;
      Real* __restrict score = place;
      for (int lane = 0; lane < Simd::lanes; ++lane) {
        const index_t row = first + lane < last ? first + lane : last;
        score[lane] =
            rule.allows(position{area.batch, area.head, row, key, area.offset}) ? score[lane] : -infinity<Real>;
      }
      vector row_scores;
      Simd::load(row_scores, place);
      Simd::larger(highest, row_scores, highest);
    }
    Simd::store(block_max + v * Simd::lanes, highest);
  }
}

}  // namespace heed::detail
