// The soft cap and the rule on the scores of a few query rows. Both look at queries side by side, so the rows of one
// head go there and back.
#pragma once

#include "heed/base/scratch.hpp"
#include "heed/cpu/terms.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

template <class Real>
class row_rules {
 public:
  explicit row_rules(kernel<Real> const& run) noexcept : run_(run) {}

  void carve(carver& from) {
    const auto take = [&](index_t count) { return from.template take<Real>(static_cast<std::size_t>(count)); };
    const index_t rows = run_.call.seq_len_q;
    const index_t lanes = round_up_pow2(rows, run_.verb.lanes);
    scores_ = take(run_.block_keys * lanes);
    max_ = take(2 * lanes);
    terms_ = from.template take<term_rows<Real>>(static_cast<std::size_t>(run_.rule.dense_stages()));
    packed_terms_ = take(run_.rule.dense_stages() * run_.block_keys * rows);
  }

  /// Whether a block's scores change at all.
  [[nodiscard]] bool changes(cover seen) const noexcept {
    return seen == cover::partial || run_.rule.adjusts() || run_.caps();
  }

  /// Scores [rows, stride] of the rows and keys of `area`.
  void apply(Real* scores, index_t stride, block const& area, cover seen) const {
    with_columns(scores, stride, area, [&](int vectors) {
      cap(area, vectors);
      if (seen != cover::partial && !run_.rule.adjusts()) return;
      load_terms(run_, area, 0, run_.call.seq_len_q, packed_terms_, run_.block_keys * run_.call.seq_len_q, terms_,
                 ahead_);
      const index_t lanes = vectors * run_.verb.lanes;
      run_.rule_verb.apply(run_.rule.rule, scores_, lanes, vectors, area, seen, {terms_, 0, 0}, max_, max_ + lanes);
    });
  }

  /// The soft cap alone.
  void cap(Real* scores, index_t stride, block const& area) const {
    if (run_.caps()) with_columns(scores, stride, area, [&](int vectors) { cap(area, vectors); });
  }

 private:
  void cap(block const& area, int vectors) const {
    if (!run_.caps()) return;
    const index_t lanes = vectors * run_.verb.lanes;
    run_.verb.cap_scores(scores_, area.key_end - area.key_begin, lanes, vectors, run_.rule_unit, run_.cap, max_,
                         max_ + lanes);
  }

  template <class Change>
  void with_columns(Real* scores, index_t stride, block const& area, Change const& change) const {
    const index_t rows = area.query_end - area.query_begin, keys = area.key_end - area.key_begin;
    const int vectors = static_cast<int>(ceil_div_pow2(rows, run_.verb.lanes));
    const index_t lanes = vectors * run_.verb.lanes;
    for (index_t i = 0; i < keys * lanes; ++i) scores_[i] = Real(0);
    for (index_t lane = 0; lane < lanes; ++lane) max_[lane] = -infinity<Real>;
    for (index_t r = 0; r < rows; ++r) {
      for (index_t key = 0; key < keys; ++key) scores_[key * lanes + r] = scores[r * stride + key];
    }
    change(vectors);
    for (index_t r = 0; r < rows; ++r) {
      for (index_t key = 0; key < keys; ++key) scores[r * stride + key] = scores_[key * lanes + r];
    }
  }

  kernel<Real> const& run_;
  mutable read_ahead ahead_{&run_};   // asked for, but not by these verbs
  term_rows<Real>* terms_ = nullptr;  // of the dense stages, for the block at hand
  Real *scores_ = nullptr, *max_ = nullptr, *packed_terms_ = nullptr;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
