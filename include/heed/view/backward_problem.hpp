// backward_problem: all operands of a backward pass, read and checked once.
#pragma once

#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct backward_problem {
  problem call;               // of the forward pass, without its outputs
  operand out, lse;           // what it wrote: [B, Hq, Sq, Dv], [B, Hq, Sq, 1]
  operand d_out, d_lse;       // their gradients; the latter may be absent
  operand dq, dk, dv;         // the shapes of query, key and value; each may be absent
  item_view<operand> biases;  // the gradient of the n-th bias, aligned right; fewer than biases, and some may be absent
  item_view<operand> sinks;   // of the n-th sink, alibi, relative_bias likewise: [num_heads] and
  item_view<operand> slopes;  //   [buckets, num_heads], in the last axes
  item_view<operand> tables;
};

[[nodiscard]] inline backward_problem backward_problem_of(problem const& inputs, saved_result const& forward,
                                                          operand const& d_out,
                                                          gradient_targets const& targets) noexcept {
  backward_problem result;
  result.call = inputs;
  result.call.gradients = &targets;
  result.out = forward.out;
  result.lse = forward.lse;
  result.d_out = d_out;
  result.d_lse = targets.d_lse_operand();
  result.dq = targets.dq_operand();
  result.dk = targets.dk_operand();
  result.dv = targets.dv_operand();
  result.biases = targets.bias_operands();
  result.sinks = targets.sink_operands();
  result.slopes = targets.slopes_operands();
  result.tables = targets.table_operands();
  return result;
}

/// Rank, memory and shape of what stands for one row of query or of key.
[[nodiscard]] inline bool check_backward_shapes(backward_problem const& pass, report& broken) {
  problem const& call = pass.call;
  struct named {
    operand const* box;
    char const* name;
    bool has_columns, per_key;
    index_t columns;
    char const* columns_name;
  };
  for (named one : {named{&pass.out, "saved out", true, false, call.head_dim_v, "head_dim_v"},
                    named{&pass.lse, "saved lse", false, false, 1, ""},
                    named{&pass.d_out, "d_out", true, false, call.head_dim_v, "head_dim_v"},
                    named{&pass.d_lse, "d_lse", false, false, 1, ""},
                    named{&pass.dq, "dq", true, false, call.head_dim_qk, "head_dim_qk"},
                    named{&pass.dk, "dk", true, true, call.head_dim_qk, "head_dim_qk"},
                    named{&pass.dv, "dv", true, true, call.head_dim_v, "head_dim_v"}}) {
    if (!one.box->given()) continue;
    const int rank = one.has_columns ? call.query.rank : call.query.rank - 1;
    if (one.box->rank != rank) {
      return broken.fail(errc::wrong_rank, "%s has rank %d but must have rank %d: the axes of query%s", one.name,
                         one.box->rank, rank, one.has_columns ? "" : " without head_dim");
    }
    if (!check_memory(*one.box, one.name, one.has_columns ? axes_given::rows_and_columns : axes_given::rows, broken) ||
        !check_shape(call, *one.box, one.name, one.has_columns, one.per_key, one.columns, one.columns_name, broken)) {
      return false;
    }
  }
  return true;
}

/// No gradient may share an element with an input, another gradient or itself.
[[nodiscard]] inline bool check_gradient_overlaps(backward_problem const& pass, report& broken) {
  struct named {
    operand const* box;
    char const* name;
  };
  problem const& call = pass.call;
  const operand offsets = offsets_of(call.options);
  return call.gradients->all_of([&](named_gradient const& one) {
    if (overlaps_itself(*one.box) != overlap::no) return check_distinct(*one.box, gradient_name(one).text, broken);
    for (named input : {named{&call.query, "query"}, named{&call.key, "key"}, named{&call.value, "value"},
                        named{&pass.out, "saved out"}, named{&pass.lse, "saved lse"}, named{&pass.d_out, "d_out"},
                        named{&pass.d_lse, "d_lse"}, named{&offsets, "the offsets of at_offset"}}) {
      if (!check_overlap(one, *input.box, input.name, errc::output_overlaps_input, broken)) return false;
    }
    bool is_before = true;
    return call.gradients->all_of([&](named_gradient const& other) {
      is_before = is_before && other.box != one.box;
      return !is_before || overlaps(*one.box, *other.box) == overlap::no ||
             check_overlap(one, *other.box, gradient_name(other).text, errc::output_overlaps_output, broken);
    });
  });
}

/// Reads the sizes of a backward pass and checks every rule that does not concern a mask or a stage.
[[nodiscard]] inline bool read_backward_problem(backward_problem& pass, report& broken) {
  if (!read_problem(pass.call, broken) || !check_backward_shapes(pass, broken)) return false;
  for (operand const* lse : {&pass.lse, &pass.d_lse}) {
    if (!lse->given() || lse->kind == element_kind::float32 ||
        (lse->kind == element_kind::float64 && pass.call.query.kind == element_kind::float64)) {
      continue;
    }
    return broken.fail(errc::wrong_element_type,
                       "%s is %s but query is %s; %s is float, or double where query is double",
                       lse == &pass.lse ? "saved lse" : "d_lse", element_name(lse->kind),
                       element_name(pass.call.query.kind), lse == &pass.lse ? "lse" : "d_lse");
  }
  const bool fits = pass.call.gradients->all_of([&](named_gradient const& one) {
    return one.number == 0 || check_memory(*one.box, gradient_name(one).text, axes_given::aligned, broken);
  });
  return fits && check_gradient_overlaps(pass, broken);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
