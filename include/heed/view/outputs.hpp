// into(out).lse(l).weights(w).scores(s, stage): what a call writes, and where.
#pragma once

#include <type_traits>

#include "heed/view/score_outputs.hpp"

namespace heed {

/// The outputs of one call, made by `into`. Holds views only: the memory must outlive the call.
class outputs {
 public:
  /// out: in the element type of the caller's choice, the rank of query. An empty row is 0.
  template <class Element, std::size_t Rank>
  HEED_INLINE explicit outputs(tensor_view<Element, Rank> const& out) noexcept : out_(detail::operand_of(out)) {
    static_assert(!std::is_const_v<Element>,
                  "heed::into: out is a view of const elements and cannot be written; pass a tensor_view<T, R> of "
                  "non-const T, or a non-const tensor");
    static_assert(floating_element<Element>, "heed::into: out must hold half, bfloat16, float or double");
  }

  HEED_INLINE outputs(outputs const&) = default;
  HEED_INLINE outputs& operator=(outputs const&) = default;
  HEED_INLINE ~outputs() = default;

  /// lse: [B, H, S], [B, S] or [S], one axis less than out; natural logarithm of the sum of exp of the final logits;
  /// -inf for an empty row. float, or double where query is double.
  template <class Lse>
  [[nodiscard]] HEED_INLINE outputs lse(Lse&& view) const {
    return with(&outputs::lse_, detail::operand_of(writable(view), false));
  }

  /// weights: [B, H, Sq, Skv], the probabilities, any float type, rounded once; 0 for what is hidden and in empty rows.
  /// Written tile by tile. Rows of the type that sums are kept in, their keys side by side, cost little more than the
  /// writing; others one more pass over the scores.
  template <class Weights>
  [[nodiscard]] HEED_INLINE outputs weights(Weights&& view) const {
    return with(&outputs::weights_, detail::operand_of(writable(view)));
  }

  /// scores: [B, H, Sq, Skv], at one stage, any float type, rounded once; any number of times. -inf for keys outside
  /// the lengths, which are never read, and rows past them. raw and capped show what masks hide, too: with one of them
  /// asked for, nothing else is skipped; biased has -inf there.
  template <class Scores>
  [[nodiscard]] HEED_INLINE outputs scores(Scores&& view, score_stage stage) const {
    outputs result = *this;
    result.scores_.add({detail::operand_of(writable(view)), stage});
    return result;
  }

  [[nodiscard]] HEED_INLINE detail::operand const& out_operand() const noexcept { return out_; }
  [[nodiscard]] HEED_INLINE detail::operand const& lse_operand() const noexcept { return lse_; }
  [[nodiscard]] HEED_INLINE detail::operand const& weights_operand() const noexcept { return weights_; }
  [[nodiscard]] HEED_INLINE detail::score_list score_operands() const noexcept {
    return {{scores_.begin(), scores_.end()}};
  }

  /// A view of a tensor or view that may be written; misuse stops here with its reason.
  template <class View>
  [[nodiscard]] HEED_INLINE static auto writable(View&& given) noexcept {
    using type = std::remove_cvref_t<View>;
    static_assert(
        detail::tensor_like<View>,
        "heed: an output must be a heed::tensor or a heed::tensor_view; wrap other memory in heed::tensor_view "
        "(for Eigen: heed::as_view)");
    static_assert(floating_element<typename type::value_type>,
                  "heed: an output must hold half, bfloat16, float or double");
    if constexpr (detail::is_tensor<type>) {
      static_assert(!std::is_const_v<std::remove_reference_t<View>>,
                    "heed: an output is a const tensor and cannot be written; pass a non-const one");
      return given.view();
    } else {
      static_assert(!std::is_const_v<typename type::element_type>,
                    "heed: an output is a view of const elements and cannot be written; pass a view of non-const ones");
      return given;
    }
  }

 private:
  [[nodiscard]] HEED_INLINE outputs with(detail::operand outputs::*member, detail::operand const& value) const {
    outputs result = *this;
    result.*member = value;
    return result;
  }

  detail::operand out_;
  detail::operand lse_;
  detail::operand weights_;
  detail::item_list<detail::score_output> scores_;
};

/// Names the outputs of a call: `into(out)`, `into(out).lse(l)`, `into(out).lse(l).weights(w)`,
/// `into(out).scores(s, score_stage::raw)`.
template <class Out>
[[nodiscard]] HEED_INLINE outputs into(Out&& out) noexcept {
  static_assert(std::is_lvalue_reference_v<Out> || !detail::is_tensor<std::remove_cvref_t<Out>>,
                "heed::into: a temporary tensor would be gone with its result; give it a name first");
  return outputs(outputs::writable(out));
}

}  // namespace heed
