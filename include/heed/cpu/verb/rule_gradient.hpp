// rule_gradient: gradients of a block of scores, back through the caller's stages.
#pragma once

#include "heed/cpu/verb/rule.hpp"
#include "heed/mask/combine.hpp"

namespace heed::detail {

/// The gradient of the score that a rule was given, from that of the score it made of it: one lane of a strip, `at`
/// being what the rule has answered for it. Lines [stages, Lanes] keep the gradient where a term was added, from the
/// one of number `Stage` on.
template <int Stage, int Lanes, class Rule, class Strip, class Real>
HEED_VERB Real pulled_back(Rule const&, Strip const& at, Real score, Real gradient, int lane, Real* stage_lines) {
  if constexpr (differentiable_stages<Rule> != 0) stage_lines[Stage * Lanes + lane] = gradient;
  if constexpr (bends<Rule>) {
    // Selected, since the slope at a score that nothing depends on may be anything.
    return blend(gradient == Real(0), Real(0), gradient * at.slope(score, lane));
  } else {
    return gradient;
  }
}
template <int Stage, int Lanes, class First, class Second, class Strip, class Real>
HEED_VERB Real pulled_back(both<First, Second> const& rule, Strip const& at, Real score, Real gradient, int lane,
                           Real* stage_lines) {
  Real between = score;
  if constexpr (bends<Second>) {
    bool visible = true;
    adjust(at.first, between, visible, lane);
  }
  const Real back = pulled_back<Stage + differentiable_stages<First>, Lanes>(rule.second, at.second, between, gradient,
                                                                             lane, stage_lines);
  return pulled_back<Stage, Lanes>(rule.first, at.first, score, back, lane, stage_lines);
}

/// Gradients [keys, lanes] of the scores that a rule has made become those of the `scores` [keys, lanes] that it was
/// given; 0 stays 0. At the stage of number n that adds terms (bias, alibi, relative_bias, counted in the order
/// written) they are also stored at stage_gradients[n] [keys, lanes], unless that or the list itself is null. Lanes
/// past the last row are filled, too, with what means nothing.
template <class Simd, class Rule>
HEED_VERB void rule_gradient(Rule const& given, typename Simd::scalar const* scores, typename Simd::scalar* gradient,
                             index_t lanes, int vectors, block const area,
                             block_terms<typename Simd::scalar> const& terms,
                             typename Simd::scalar* const* stage_gradients) {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  constexpr index_t square = index_t{Simd::lanes} * Simd::lanes;
  constexpr int stages = differentiable_stages<Rule>;
  local_rule<Rule> rule = given;
  for (int v = 0; v < vectors; ++v) {
    const index_t row = index_t{v} * Simd::lanes;
    for (index_t begin = area.key_begin; begin < area.key_end; begin += Simd::lanes) {
      const index_t end = lesser(begin + Simd::lanes, area.key_end);
      alignas(64) Real columns[greater(1, dense_stages<Rule> * square)];  // of each dense stage [keys, lanes]
      load_columns<Simd, Rule>(area, terms, row, begin, end, columns);
      strip<Real> rows{area.batch, area.head, area.query_begin + row, area.query_end - 1, 0, area.offset,
                       columns,    square};
      index_t place = (begin - area.key_begin) * lanes + row;
      for (index_t key = begin; key < end; ++key, place += lanes) {
        rows.key = key;
        const auto at = on(rule, rows);
        // Written apart, as the verb rule does.
        alignas(64) Real line[Simd::lanes];
        alignas(64) Real stage_lines[greater(1, stages) * Simd::lanes];
        for (int lane = 0; lane < Simd::lanes; ++lane) {
          line[lane] =
              pulled_back<0, Simd::lanes>(rule, at, scores[place + lane], gradient[place + lane], lane, stage_lines);
        }
        rows.terms += Simd::lanes;
        vector whole;
        Simd::load(whole, line);
        Simd::store(gradient + place, whole);
        for (int stage = 0; stage_gradients != nullptr && stage < stages; ++stage) {
          if (stage_gradients[stage] == nullptr) continue;
          Simd::load(whole, stage_lines + stage * Simd::lanes);
          Simd::store(stage_gradients[stage] + place, whole);
        }
      }
    }
  }
}

}  // namespace heed::detail
