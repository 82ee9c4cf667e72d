// bias: a float term for each score, or for each of a broadcast axis.
#pragma once

#include "heed/mask/strip.hpp"
#include "heed/view/operand.hpp"

namespace heed {

/// score + view[batch, head, query, key].
///
/// Shapes: a view of half, bfloat16, float or double, of rank 1 to 4, aligned right with [batch_size, num_heads,
///   seq_len_q, seq_len_kv], in every call; an axis of extent 1 is repeated, whatever its stride. Any strides. The
///   memory must outlive the call; a shape that does not fit is errc::bias_not_broadcastable.
/// Added in the accumulate type (float, or double where query is double); a finite double beyond the range of float
///   becomes the largest float. -inf hides, whatever later stages do; a very negative finite number does not. NaN
///   reaches the rows that see it, and no other.
/// Cost: at most 20 % of a call for floats that heads share; it is read once for each head.
/// Example: `attention(q, k, v, out, bias(view) & causal{})`
class bias {
 public:
  template <class View>
  requires(!std::is_same_v<std::remove_cvref_t<View>, bias>) HEED_INLINE explicit bias(View&& view) noexcept {
    using view_type = std::remove_cvref_t<View>;
    static_assert(detail::tensor_like<View>,
                  "heed::bias: the argument must be a heed::tensor or heed::tensor_view of half, bfloat16, float or "
                  "double; wrap your memory in heed::tensor_view<float const, R>(data, {extents})");
    if constexpr (detail::tensor_like<View>) {
      static_assert(floating_element<typename view_type::value_type>,
                    "heed::bias: a bias holds half, bfloat16, float or double; a bool tensor is a mask: "
                    "heed::keep_mask(m) (true = attend) or heed::drop_mask(m) (true = hidden)");
      static_assert(std::is_lvalue_reference_v<View> || !detail::is_tensor<view_type>,
                    "heed::bias: a temporary tensor is gone before the call reads it; give it a name first, and pass "
                    "that");
      terms_ = detail::aligned_operand_of(view);
    }
  }

  static constexpr bool is_stage = true;
  [[nodiscard]] HEED_FN detail::operand const& terms() const noexcept { return terms_; }

  template <class Real>
  [[nodiscard]] HEED_FN constexpr detail::added_terms<Real> on(detail::strip<Real> const& rows) const noexcept {
    return {rows.terms};
  }

 private:
  detail::operand terms_;
};

namespace detail {
template <>
inline constexpr int dense_stages<bias> = 1;
template <>
inline constexpr int differentiable_stages<bias> = 1;
}  // namespace detail
}  // namespace heed
