// sink: a logit for each query head that takes part in the softmax and has no value.
#pragma once

#include "heed/base/list.hpp"
#include "heed/mask/strip.hpp"

namespace heed {

/// out = sum of exp(score_j) value_j / (exp(logit) + sum of exp(score_j)): weights sum to less than 1.
///
/// Shapes: logits [num_heads], floats, one for each query head, already scaled; no cap, bias or mask applies to them.
///   They must outlive the call; any other count is errc::logits_wrong_count. Several sinks all join.
/// lse has the sink in it. Empty: a row that may see no key gives 0 and lse = logit; rows past a query length give 0
/// and
///   lse -inf. A logit of -inf weighs nothing; one that is NaN or +inf makes every row of its head NaN.
/// Cost: nothing for each score.
/// Source: Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2023); as a learned logit: gpt-oss.
/// Example: `attention(q, k, v, out, causal{} & sink{.logits = logits})`
struct sink {
  list<float> logits{};

  static constexpr bool is_stage = true;

  struct lanes {};  // no score changes
  template <class Real>
  [[nodiscard]] HEED_FN constexpr lanes on(detail::strip<Real> const&) const noexcept {
    return {};
  }

  HEED_FN void begin_row(index_t head, detail::row_start& start) const noexcept {
    const double logit = static_cast<double>(logits[head]);
    if (logit == -__builtin_inf()) return;
    if (!(logit < __builtin_inf())) {
      start.sum = __builtin_nan("");
      return;
    }
    const double highest = logit > start.max ? logit : start.max;
    const double before = start.sum == 0 ? 0.0 : start.sum * __builtin_exp(start.max - highest);
    start = {highest, before + __builtin_exp(logit - highest)};
  }
};

}  // namespace heed
