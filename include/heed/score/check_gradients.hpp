// What the gradients of stages must fulfil for a rule: the rule has the stage, and they have the shape of what it
// reads.
#pragma once

#include "heed/score/check.hpp"
#include "heed/view/backward_problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// The gradients of the stages of one kind, met in the order written.
class stage_gradients {
 public:
  stage_gradients(item_view<operand> const& given, char const* member, char const* name, char const* stage) noexcept
      : given_(given), member_(member), name_(name), stage_(stage) {}

  /// The next stage of the rule, which reads `box`.
  [[nodiscard]] bool check_next(operand const& box, report& broken) {
    const index_t place = met_++;
    if (place >= given_.size() || !given_[place].given()) return true;
    operand const& target = given_[place];
    bool same = true;
    for (int axis = 0; axis < 4; ++axis) same = same && target.extents[axis] == box.extents[axis];
    if (same) return true;
    return broken.fail(errc::gradient_wrong_shape,
                       "%s has the shape %s but the %s it belongs to has %s; give the gradient that shape (axes of "
                       "extent 1 are summed over)",
                       gradient_name({&target, name_, place + 1}).text, shape_text(target, axes_given::aligned).text,
                       stage_, shape_text(box, axes_given::aligned).text);
  }

  /// After the last stage.
  [[nodiscard]] bool check_count(report& broken) const {
    if (given_.size() <= met_) return true;
    return broken.fail(
        errc::gradient_without_stage,
        "gradients(...).%s: %lld given, but the rule has %lld of heed::%s; give one for each, in the order they "
        "appear in the rule, nullptr where it is not wanted",
        member_, static_cast<long long>(given_.size()), static_cast<long long>(met_), stage_);
  }

 private:
  item_view<operand> given_;
  char const* member_;
  char const* name_;
  char const* stage_;
  index_t met_ = 0;
};

/// Of a checked rule.
template <class Rule>
[[nodiscard]] bool check_gradients(Rule const& rule, backward_problem const& pass, report& broken) {
  stage_gradients biases(pass.biases, "bias", "bias gradient", "bias");
  stage_gradients sinks(pass.sinks, "sink", "sink gradient", "sink");
  stage_gradients slopes(pass.slopes, "slopes", "slopes gradient", "alibi");
  stage_gradients tables(pass.tables, "table", "table gradient", "relative_bias");
  bool fine = true;
  for_each_rule(rule, [&]<class Stage>(Stage const& stage) {
    if constexpr (std::is_same_v<Stage, bias>) {
      fine = fine && biases.check_next(stage.terms(), broken);
    } else if constexpr (std::is_same_v<Stage, sink>) {
      fine = fine && sinks.check_next(operand_of_list(stage.logits), broken);
    } else if constexpr (std::is_same_v<Stage, alibi>) {
      fine = fine && slopes.check_next(operand_of_list(stage.slopes), broken);
    } else if constexpr (std::is_same_v<Stage, relative_bias>) {
      fine = fine && tables.check_next(operand_of(stage.table), broken);
    }
  });
  return fine && biases.check_count(broken) && sinks.check_count(broken) && slopes.check_count(broken) &&
         tables.check_count(broken);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
