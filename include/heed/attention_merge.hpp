// merge: partial results of attention over disjoint sets of keys become the result over all of them.
#pragma once

#include <concepts>

#include "heed/attention.hpp"
#include "heed/cpu/merge.hpp"

namespace heed {
namespace detail {
inline namespace HEED_ABI {

/// Whether two operands are the same elements in the same places.
[[nodiscard]] inline bool is_same_view(operand const& one, operand const& other) noexcept {
  bool same = one.data == other.data && one.kind == other.kind;
  for (int axis = 0; axis < 4; ++axis) {
    same = same && one.extents[axis] == other.extents[axis] && one.strides[axis] == other.strides[axis];
  }
  return same;
}

/// An output of merge may be the input that it replaces, but not overlap any input otherwise.
[[nodiscard]] inline bool check_merge_overlap(operand const& output, char const* output_name, operand const& input,
                                              char const* input_name, bool may_be_same, report& broken) {
  if (may_be_same && is_same_view(output, input)) return true;
  const overlap found = overlaps(output, input);
  if (found == overlap::no) return true;
  return broken.fail(errc::output_overlaps_input, "%s and %s %s; give %s memory of its own%s", output_name, input_name,
                     found == overlap::yes ? "share an element"
                                           : "have byte ranges that meet, and strides too irregular to compare exactly",
                     output_name, may_be_same ? ", or exactly the view of that input" : "");
}

/// Every rule of a call of merge; the first broken one is reported.
[[nodiscard]] inline bool check_merge(outputs const& to, merge_call const& call, report& broken) {
  if (!check_isa(broken)) return false;
  if (to.weights_operand().given() || to.score_operands().given()) {
    return broken.fail(errc::unused_output, "%s cannot be merged; ask the calls of attention for them",
                       to.weights_operand().given() ? "weights" : "scores");
  }
  if (call.out.rank < 2 || call.out.rank > 4) {
    return broken.fail(errc::wrong_rank,
                       "out has rank %d; it must be rank 4 [batch_size, num_heads, seq_len, head_dim], rank 3 "
                       "[batch_size, seq_len, head_dim] or rank 2 [seq_len, head_dim]",
                       call.out.rank);
  }
  problem shape;
  shape.batch_size = call.out.extents[0];
  shape.num_heads = call.out.extents[1];
  shape.seq_len_q = call.out.extents[2];
  shape.head_dim_v = call.out.extents[3];
  const auto check_one = [&](operand const& box, char const* name, bool is_out) {
    const int rank = is_out ? call.out.rank : call.out.rank - 1;
    if (box.rank != rank) {
      return broken.fail(errc::wrong_rank, "%s has rank %d but must have rank %d: the axes of out%s", name, box.rank,
                         rank, is_out ? "" : " without head_dim");
    }
    return check_memory(box, name, is_out ? axes_given::rows_and_columns : axes_given::rows, broken) &&
           check_shape(shape, box, name, is_out, false, is_out ? shape.head_dim_v : 1, is_out ? "head_dim_v" : "",
                       broken);
  };
  if (!check_one(call.out, "out", true) || (call.lse.given() && !check_one(call.lse, "lse", false))) return false;
  if (shape.head_dim_v == 0) {
    return broken.fail(errc::zero_head_dim, "out has head_dim 0, got %s; head_dim_v must be at least 1",
                       shape_text(call.out).text);
  }
  if (!check_distinct(call.out, "out", broken) || !check_distinct(call.lse, "lse", broken) ||
      !check_overlap(call.lse, "lse", call.out, "out", errc::output_overlaps_output, broken)) {
    return false;
  }
  for (index_t i = 0; i < call.count; ++i) {
    partial_result const& part = call.parts[i];
    char out_name[40], lse_name[40];
    std::snprintf(out_name, sizeof out_name, "out of partial %lld", static_cast<long long>(i + 1));
    std::snprintf(lse_name, sizeof lse_name, "lse of partial %lld", static_cast<long long>(i + 1));
    if (!check_one(part.out, out_name, true) || !check_one(part.lse, lse_name, false) ||
        !check_merge_overlap(call.out, "out", part.out, out_name, true, broken) ||
        !check_merge_overlap(call.out, "out", part.lse, lse_name, false, broken) ||
        !check_merge_overlap(call.lse, "lse", part.out, out_name, false, broken) ||
        !check_merge_overlap(call.lse, "lse", part.lse, lse_name, true, broken)) {
      return false;
    }
  }
  return true;
}

/// Sums are kept in double where anything is double, else in float.
[[nodiscard]] inline bool merges_in_double(merge_call const& call) noexcept {
  bool any = call.out.kind == element_kind::float64 || call.lse.kind == element_kind::float64;
  for (index_t i = 0; i < call.count; ++i) {
    any = any || call.parts[i].out.kind == element_kind::float64 || call.parts[i].lse.kind == element_kind::float64;
  }
  return any;
}

/// A template, so that programs that do not merge do not pay for the verbs of both types.
template <class Part>
void run_merge(outputs const& to, Part const* parts, index_t count) {
  const fp_environment environment;
  const merge_call call{to.out_operand(), to.lse_operand(), parts, count};
  require([&](report& broken) { return check_merge(to, call, broken); }, "heed::merge");
  if (call.out.empty()) return;
  if (merges_in_double(call)) {
    merger<double>(call).run();
  } else {
    merger<float>(call).run();
  }
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// The result of attention over the union of disjoint sets of keys, from the results over each of them:
/// `merge(into(out).lse(lse), partial(out1, lse1), partial(out2, lse2))`. One partial result or more, in any order.
///
/// Shapes: out [B, H, S, D] and lse [B, H, S] as attention gives them, or of rank 3 and 2, or 2 and 1; those of every
///   partial result are the same. Any strides, any of half, bfloat16, float and double, each its own. `lse` may be left
///   out of `into`. An output may be an input: out exactly the view of a partial's out, lse of a partial's lse.
/// Units: lse is a natural logarithm, as that of attention. A sink belongs to one of the partial results, not to all of
///   them; (0, the sink's logit) is one, too.
/// Empty: a row with an lse of -inf saw no key, and its out may hold anything; a row that no partial result saw keys of
///   is out 0, lse -inf. A row that only one saw keys of is that one's, bit for bit where the element types are equal.
///   Otherwise NaN or +inf in an lse gives NaN, as it did in the scores; NaN or inf in a row's out reaches that row.
/// Error bound: shares in double, sums in double where any operand is double, else in float: (number of partial results
///   + 2) eps of the largest |out| that is merged. A mean of finite numbers is finite.
/// Throws: heed::error before the first write (see errc); std::bad_alloc.
/// Cost: bound by memory: reads all, writes all. Threads: this one only.
/// Source: Milakov and Gimelshein (2018), section 3.1; as in Flash-Decoding (Dao et al., 2023) and FlashInfer (2025).
template <detail::output_argument Out, std::same_as<partial_result>... More>
void merge(Out&& out, partial_result const& first, More const&... more) {
  partial_result const parts[] = {first, more...};
  outputs const& to = detail::outputs_of(std::forward<Out>(out));
  detail::run_merge(to, parts, static_cast<index_t>(1 + sizeof...(More)));
}

/// The first rule that `merge(the same arguments)` breaks, or errc::ok. Allocates nothing, throws nothing.
template <detail::output_argument Out, std::same_as<partial_result>... More>
[[nodiscard]] errc validate(Out&& out, partial_result const& first, More const&... more) noexcept {
  const detail::fp_environment environment;
  partial_result const parts[] = {first, more...};
  outputs const& to = detail::outputs_of(std::forward<Out>(out));
  detail::report quick("heed::validate");
  (void)detail::check_merge(to, {to.out_operand(), to.lse_operand(), parts, static_cast<index_t>(1 + sizeof...(More))},
                            quick);
  return quick.code();
}

}  // namespace HEED_ABI
}  // namespace heed
