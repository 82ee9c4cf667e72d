// What a stage must fulfil for a call: it broadcasts, it has one number for each head, its memory is not an output.
#pragma once

#include "heed/mask/check.hpp"
#include "heed/score/alibi.hpp"
#include "heed/score/bias.hpp"
#include "heed/score/relative.hpp"
#include "heed/score/sink.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

[[nodiscard]] inline bool check_rule(bias const& stage, problem const& call, report& broken) {
  return check_broadcast(stage.terms(), "bias", "bias", errc::bias_not_broadcastable, call, broken);
}

[[nodiscard]] inline operand operand_of_list(list<float> const& numbers) noexcept {
  return operand_of(tensor_view<float const, 1>(numbers.data(), {numbers.size()}));
}

/// One number for each query head; `fix` says where they come from.
[[nodiscard]] inline bool check_head_list(list<float> const& numbers, char const* name, char const* fix, errc code,
                                          problem const& call, report& broken) {
  if (numbers.size() != call.num_heads) {
    return broken.fail(code, "%s has %lld numbers for num_heads %lld; give one for each query head%s", name,
                       static_cast<long long>(numbers.size()), static_cast<long long>(call.num_heads), fix);
  }
  return check_rule_memory(operand_of_list(numbers), name, call, broken);
}

[[nodiscard]] inline bool check_rule(alibi const& stage, problem const& call, report& broken) {
  return check_head_list(stage.slopes, "alibi.slopes", " (heed::alibi_slopes(num_heads) has those of the paper)",
                         errc::slopes_wrong_count, call, broken);
}
[[nodiscard]] inline bool check_rule(sink const& stage, problem const& call, report& broken) {
  return check_head_list(stage.logits, "sink.logits", "", errc::logits_wrong_count, call, broken);
}

[[nodiscard]] inline bool check_rule(relative_bias const& stage, problem const& call, report& broken) {
  const operand box = operand_of(stage.table);
  const index_t buckets = stage.table.extent(0), exact = stage.exact_buckets();
  if (buckets < 2 || stage.table.extent(1) != call.num_heads) {
    return broken.fail(errc::table_wrong_shape,
                       "relative_bias.table has the shape [%lld, %lld]; it must be [buckets, num_heads=%lld] with at "
                       "least 2 buckets",
                       static_cast<long long>(buckets), static_cast<long long>(stage.table.extent(1)),
                       static_cast<long long>(call.num_heads));
  }
  if (stage.max_distance <= exact) {
    return broken.fail(errc::bad_max_distance,
                       "relative_bias.max_distance is %lld, but the first %lld of %lld buckets%s stand for one "
                       "distance each; it must be greater than that",
                       static_cast<long long>(stage.max_distance), static_cast<long long>(exact),
                       static_cast<long long>(stage.buckets_per_direction()),
                       stage.bidirectional ? " of a direction" : "");
  }
  return check_memory(box, "relative_bias.table", axes_given::aligned, broken) &&
         check_rule_memory(box, "relative_bias.table", call, broken);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
