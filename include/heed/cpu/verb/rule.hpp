// rule: the caller's stages and masks over a block of scores.
#pragma once

#include <type_traits>

#include "heed/cpu/verb/pack.hpp"
#include "heed/cpu/verbs.hpp"
#include "heed/mask/strip.hpp"
#include "heed/softmax/math.hpp"

namespace heed::detail {

/// Of each dense stage of a rule, terms [keys, lanes] of the vector of rows at `row` of the block and of some of its
/// keys. Lanes past the last row repeat it.
template <class Simd, class Rule>
HEED_VERB void load_columns(block const& area, block_terms<typename Simd::scalar> const& terms, index_t row,
                            index_t key_begin, index_t key_end, typename Simd::scalar* columns) {
  using Real = typename Simd::scalar;
  for (int stage = 0; stage < dense_stages<Rule>; ++stage) {
    term_rows<Real> const& from = terms.stages[stage];
    pack_query<Simd>(from.first + (terms.row + row) * from.stride + terms.key + key_begin - area.key_begin, from.stride,
                     area.query_end - area.query_begin - row, key_end - key_begin, Real(1), 1,
                     columns + stage * index_t{Simd::lanes} * Simd::lanes);
  }
}

/// Scores [keys, lanes], `vectors` of them, of the block's rows and keys go through the rule's stages and, where
/// `Masked`, its masks: what is hidden becomes -inf. block_max = max(row_max, what is left). Lanes past the last row
/// repeat it: no rule is asked about a row that does not exist.
template <class Simd, bool Masked, class Rule>
HEED_VERB void rule_lines(Rule const& rule, typename Simd::scalar* scores, index_t lanes, int vectors, block const area,
                          block_terms<typename Simd::scalar> const& terms, typename Simd::scalar const* row_max,
                          typename Simd::scalar* block_max) {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  constexpr index_t square = index_t{Simd::lanes} * Simd::lanes;
  for (int v = 0; v < vectors; ++v) {
    const index_t row = index_t{v} * Simd::lanes;
    vector highest;
    Simd::load(highest, row_max + row);
    for (index_t begin = area.key_begin; begin < area.key_end; begin += Simd::lanes) {
      const index_t end = lesser(begin + Simd::lanes, area.key_end);
      alignas(64) Real columns[greater(1, dense_stages<Rule> * square)];  // of each dense stage [keys, lanes]
      load_columns<Simd, Rule>(area, terms, row, begin, end, columns);
      strip<Real> rows{area.batch, area.head, area.query_begin + row, area.query_end - 1, 0, area.offset,
                       columns,    square};
      Real* score = scores + (begin - area.key_begin) * lanes + row;
      for (index_t key = begin; key < end; ++key, score += lanes) {
        rows.key = key;
        const auto at = on(rule, rows);
        // Written apart from the scores, which whatever a rule reads might be part of for all that a compiler knows.
        alignas(64) Real line[Simd::lanes];
        for (int lane = 0; lane < Simd::lanes; ++lane) {
          Real adjusted = score[lane];
          bool visible = true;
          adjust(at, adjusted, visible, lane);
          if constexpr (Masked) visible = visible & allows(at, lane);
          line[lane] = blend(visible, adjusted, -infinity<Real>);
        }
        rows.terms += Simd::lanes;
        vector row_scores;
        Simd::load(row_scores, line);
        Simd::store(score, row_scores);
        Simd::larger(highest, row_scores, highest);
      }
    }
    Simd::store(block_max + row, highest);
  }
}

/// A copy, because stores to the scores might otherwise change what a reference stands for.
template <class Rule>
using local_rule = std::conditional_t<std::is_trivially_copyable_v<Rule>, const Rule, Rule const&>;

template <class Simd, class Rule>
HEED_VERB void apply_rule(Rule const& given, typename Simd::scalar* scores, index_t lanes, int vectors,
                          block const& area, cover seen, block_terms<typename Simd::scalar> const& terms,
                          typename Simd::scalar const* row_max, typename Simd::scalar* block_max) {
  local_rule<Rule> rule = given;
  if constexpr (adjusts<Rule> && hides<Rule>) {
    if (seen == cover::full) {
      return rule_lines<Simd, false>(rule, scores, lanes, vectors, area, terms, row_max, block_max);
    }
  }
  rule_lines<Simd, hides<Rule>>(rule, scores, lanes, vectors, area, terms, row_max, block_max);
}

}  // namespace heed::detail
