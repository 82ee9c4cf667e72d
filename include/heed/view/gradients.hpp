// saved(out, lse) and gradients(dq, dk, dv): what a backward pass is given of the forward one, and what it writes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <type_traits>

#include "heed/view/item_list.hpp"
#include "heed/view/outputs.hpp"

namespace heed {

/// What the forward pass left, made by `saved`. Holds views only: the memory must outlive the call.
struct saved_result {
  detail::operand out;
  detail::operand lse;
};

namespace detail {

template <class Given>
inline constexpr bool is_left_out = std::is_same_v<std::remove_cvref_t<Given>, std::nullptr_t>;

/// A view of a gradient that will be written; misuse stops here with its reason.
template <class Given>
[[nodiscard]] HEED_INLINE auto gradient_view(Given&& given) noexcept {
  static_assert(std::is_lvalue_reference_v<Given> || !is_tensor<std::remove_cvref_t<Given>>,
                "heed::gradients: a temporary tensor would be gone with its result; give it a name first (or nullptr "
                "for a gradient that is not wanted)");
  return outputs::writable(given);
}

/// A gradient with the axes of query, key or value.
template <class Given>
[[nodiscard]] HEED_INLINE operand gradient_operand(Given&& given) noexcept {
  if constexpr (is_left_out<Given>) {
    return {};
  } else {
    return operand_of(gradient_view(static_cast<Given&&>(given)));
  }
}

/// A gradient of what a stage reads; Rank 0 takes any rank.
template <std::size_t Rank, class Given>
[[nodiscard]] HEED_INLINE operand stage_gradient_operand(Given&& given) noexcept {
  if constexpr (is_left_out<Given>) {
    return {};
  } else {
    static_assert(!tensor_like<Given> || Rank == 0 || std::remove_cvref_t<Given>::rank == Rank,
                  "heed::gradients: the gradient of a sink or of slopes has rank 1 [num_heads], that of a table rank 2 "
                  "[buckets, num_heads]");
    return aligned_operand_of(gradient_view(static_cast<Given&&>(given)));
  }
}

/// One gradient of a call, for texts: "dk", or "bias gradient 2".
struct named_gradient {
  operand const* box;
  char const* name;
  index_t number;  // 0: the name says it all
};

struct gradient_name {
  char text[48];

  HEED_INLINE explicit gradient_name(named_gradient const& one) noexcept {
    if (one.number == 0) {
      std::snprintf(text, sizeof text, "%s", one.name);
    } else {
      std::snprintf(text, sizeof text, "%s %lld", one.name, static_cast<long long>(one.number));
    }
  }
};

}  // namespace detail

/// What a backward pass writes, made by `gradients`. Holds views only: the memory must outlive the call.
class gradient_targets {
 public:
  HEED_INLINE gradient_targets(detail::operand const& dq, detail::operand const& dk, detail::operand const& dv) noexcept
      : dq_(dq), dk_(dk), dv_(dv) {}

  HEED_INLINE gradient_targets(gradient_targets const&) = default;
  HEED_INLINE gradient_targets& operator=(gradient_targets const&) = default;
  HEED_INLINE ~gradient_targets() = default;

  /// The gradient of a bias, in the bias's own shape (rank 1 to 4, aligned right): summed over the axes that the bias
  /// repeats. Any float type, rounded once. Once for each bias of the rule, in the order they appear there; nullptr
  /// where one is not wanted, and nothing for the last ones.
  template <class View>
  [[nodiscard]] HEED_INLINE gradient_targets bias(View&& view) const {
    return with(&gradient_targets::biases_, detail::stage_gradient_operand<0>(static_cast<View&&>(view)));
  }
  /// The gradient of a sink's logits, [num_heads]; in the order of the sinks, as above.
  template <class View>
  [[nodiscard]] HEED_INLINE gradient_targets sink(View&& view) const {
    return with(&gradient_targets::sinks_, detail::stage_gradient_operand<1>(static_cast<View&&>(view)));
  }
  /// The gradient of the slopes of an alibi, [num_heads]; in the order of the alibis, as above.
  template <class View>
  [[nodiscard]] HEED_INLINE gradient_targets slopes(View&& view) const {
    return with(&gradient_targets::slopes_, detail::stage_gradient_operand<1>(static_cast<View&&>(view)));
  }
  /// The gradient of the table of a relative_bias, [buckets, num_heads]; in the order of the relative biases, as above.
  template <class View>
  [[nodiscard]] HEED_INLINE gradient_targets table(View&& view) const {
    return with(&gradient_targets::tables_, detail::stage_gradient_operand<2>(static_cast<View&&>(view)));
  }
  /// d_lse, an input: the gradient of the loss with respect to lse, in lse's shape; float, or double where query is
  /// double. Absent: zeros.
  template <class View>
  [[nodiscard]] HEED_INLINE gradient_targets lse(View&& view) const {
    static_assert(detail::tensor_like<View>,
                  "heed::gradients: d_lse must be a heed::tensor or a heed::tensor_view; leave .lse out where there is "
                  "none");
    static_assert(std::is_lvalue_reference_v<View> || !detail::is_tensor<std::remove_cvref_t<View>>,
                  "heed::gradients: a temporary d_lse may be gone before the call reads it; give it a name first");
    gradient_targets result = *this;
    if constexpr (detail::tensor_like<View>) {
      static_assert(floating_element<typename std::remove_cvref_t<View>::value_type>,
                    "heed::gradients: d_lse must hold float or double; convert its elements first");
      result.d_lse_ = detail::operand_of(detail::view_of_tensor(view), false);
    }
    return result;
  }

  [[nodiscard]] HEED_INLINE detail::operand const& dq_operand() const noexcept { return dq_; }
  [[nodiscard]] HEED_INLINE detail::operand const& dk_operand() const noexcept { return dk_; }
  [[nodiscard]] HEED_INLINE detail::operand const& dv_operand() const noexcept { return dv_; }
  [[nodiscard]] HEED_INLINE detail::operand const& d_lse_operand() const noexcept { return d_lse_; }
  // Those that are not wanted are in these lists, too, but not `given()`.
  [[nodiscard]] HEED_INLINE detail::item_view<detail::operand> bias_operands() const noexcept { return all(biases_); }
  [[nodiscard]] HEED_INLINE detail::item_view<detail::operand> sink_operands() const noexcept { return all(sinks_); }
  [[nodiscard]] HEED_INLINE detail::item_view<detail::operand> slopes_operands() const noexcept { return all(slopes_); }
  [[nodiscard]] HEED_INLINE detail::item_view<detail::operand> table_operands() const noexcept { return all(tables_); }

  /// Whether `visit(named_gradient)` is true of every gradient that is wanted; stops at the first of which it is not.
  template <class Visitor>
  [[nodiscard]] HEED_INLINE bool all_of(Visitor const& visit) const {
    struct kind {
      detail::item_list<detail::operand> const* list;
      char const* name;
    };
    for (detail::named_gradient one : {detail::named_gradient{&dq_, "dq", 0}, detail::named_gradient{&dk_, "dk", 0},
                                       detail::named_gradient{&dv_, "dv", 0}}) {
      if (one.box->given() && !visit(one)) return false;
    }
    for (kind each : {kind{&biases_, "bias gradient"}, kind{&sinks_, "sink gradient"},
                      kind{&slopes_, "slopes gradient"}, kind{&tables_, "table gradient"}}) {
      index_t number = 0;
      for (detail::operand const& box : *each.list) {
        ++number;
        if (box.given() && !visit(detail::named_gradient{&box, each.name, number})) return false;
      }
    }
    return true;
  }

 private:
  using operands = detail::item_list<detail::operand>;

  [[nodiscard]] HEED_INLINE static detail::item_view<detail::operand> all(operands const& list) noexcept {
    return {list.begin(), list.end()};
  }
  [[nodiscard]] HEED_INLINE gradient_targets with(operands gradient_targets::*list, detail::operand const& more) const {
    gradient_targets result = *this;
    (result.*list).add(more);
    return result;
  }

  detail::operand dq_, dk_, dv_;
  detail::operand d_lse_;
  operands biases_, sinks_, slopes_, tables_;
};

/// out [B, H, S, D], [B, S, D] or [S, D] and lse [B, H, S], [B, S] or [S], exactly as the forward pass wrote them, with
/// the same rule and options: `attention(q, k, v, into(out).lse(lse), rule)`.
template <class Out, class Lse>
[[nodiscard]] HEED_INLINE saved_result saved(Out&& out, Lse&& lse) noexcept {
  static_assert(detail::tensor_like<Out> && detail::tensor_like<Lse>,
                "heed::saved: out and lse must each be a heed::tensor or a heed::tensor_view, those that attention(q, "
                "k, v, into(out).lse(lse)) wrote; wrap other memory in heed::tensor_view (for Eigen: heed::as_view)");
  static_assert((std::is_lvalue_reference_v<Out> || !detail::is_tensor<std::remove_cvref_t<Out>>)&&(
                    std::is_lvalue_reference_v<Lse> || !detail::is_tensor<std::remove_cvref_t<Lse>>),
                "heed::saved: a temporary tensor may be gone before the call reads it; give it a name first");
  if constexpr (detail::tensor_like<Out> && detail::tensor_like<Lse>) {
    static_assert(floating_element<typename std::remove_cvref_t<Out>::value_type>,
                  "heed::saved: out must hold half, bfloat16, float or double");
    static_assert(element_kind_of<typename std::remove_cvref_t<Lse>::value_type> == element_kind::float32 ||
                      element_kind_of<typename std::remove_cvref_t<Lse>::value_type> == element_kind::float64,
                  "heed::saved: lse must hold float, or double where query is double");
    return {detail::operand_of(detail::view_of_tensor(out)), detail::operand_of(detail::view_of_tensor(lse), false)};
  } else {
    return {};
  }
}

/// Names the gradients of a call: `gradients(dq, dk, dv)`, nullptr for one that is not wanted, and
/// `gradients(dq, dk, dv).bias(b).sink(s).slopes(a).table(t).lse(d_lse)`. dq, dk and dv have the shapes of query, key
/// and value, and element types of their own.
template <class Query, class Key, class Value>
[[nodiscard]] HEED_INLINE gradient_targets gradients(Query&& dq, Key&& dk, Value&& dv) noexcept {
  return gradient_targets(detail::gradient_operand(static_cast<Query&&>(dq)),
                          detail::gradient_operand(static_cast<Key&&>(dk)),
                          detail::gradient_operand(static_cast<Value&&>(dv)));
}

}  // namespace heed
