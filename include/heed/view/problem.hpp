// problem: all sizes and strides of a call, read and checked once, never derived again.
#pragma once

#include "heed/base/fp_environment.hpp"
#include "heed/base/report.hpp"
#include "heed/view/gradients.hpp"
#include "heed/view/options.hpp"
#include "heed/view/outputs.hpp"
#include "heed/view/overlap.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct problem {
  operand query, key, value;  // [B, Hq, Sq, D], [B, Hkv, Skv, D], [B, Hkv, Skv, Dv]
  operand out, lse, weights;  // [B, Hq, Sq, Dv], [B, Hq, Sq, 1], [B, Hq, Sq, Skv]; the last two may be absent
  score_list scores;          // [B, Hq, Sq, Skv] each
  gradient_targets const* gradients = nullptr;  // of a backward pass, which has none of the outputs above
  attention_options options;
  fp_state environment;  // the caller's, for the code of others that a call runs
  index_t batch_size = 0;
  index_t num_heads = 0;
  index_t num_kv_heads = 0;
  index_t group_size = 1;  // query heads that share one key-value head
  index_t seq_len_q = 0;
  index_t seq_len_kv = 0;
  index_t head_dim_qk = 0;
  index_t head_dim_v = 0;

  /// Nothing would be written.
  [[nodiscard]] bool nothing_to_do() const noexcept { return batch_size == 0 || num_heads == 0 || seq_len_q == 0; }
  /// Probabilities go through dropout.
  [[nodiscard]] bool drops() const noexcept { return options.drop.p > 0; }
};

/// Which axes of an operand the caller gave: the rows of query and the like, those without the last one, or the last
/// ones of [batch, head, query, key].
enum class axes_given : unsigned char { rows_and_columns, rows, aligned };

/// "[2, 5, 76, 64]" of the axes that the caller gave.
struct shape_text {
  char text[96];

  explicit shape_text(operand const& box, axes_given given = axes_given::rows_and_columns) noexcept {
    const bool has_columns = given != axes_given::rows, is_aligned = given == axes_given::aligned;
    int used = std::snprintf(text, sizeof text, "[");
    for (int axis = 0; axis < (has_columns ? 4 : 3); ++axis) {
      if (is_aligned && axis < 4 - box.rank) continue;
      if (!is_aligned && axis == 0 && box.rank < (has_columns ? 3 : 2)) continue;
      if (!is_aligned && axis == 1 && box.rank < (has_columns ? 4 : 3)) continue;
      used += std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "%s%lld", used > 1 ? ", " : "",
                            static_cast<long long>(box.extents[axis]));
    }
    std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "]");
  }
};

/// What is wrong with a shape, its reach or its data, once something may be.
[[nodiscard, gnu::noinline]] inline bool check_unusual_memory(operand const& box, char const* name, axes_given given,
                                                              report& broken) {
  for (index_t extent : box.extents) {
    if (extent < 0) {
      return broken.fail(errc::negative_extent, "%s has the shape %s; extents must be 0 or more", name,
                         shape_text(box, given).text);
    }
  }
  if (box.empty()) return true;
  index_t reach = 1;
  index_t count = 1;
  for (int axis = 0; axis < 4; ++axis) {
    reach = saturating_add(reach, saturating_mul(box.extents[axis] - 1, magnitude(box.strides[axis])));
    count = saturating_mul(count, box.extents[axis]);
  }
  if (greater(reach, count) > INT64_MAX / 32) {
    return broken.fail(errc::size_overflow,
                       "%s with the shape %s and its strides spans more bytes than 64-bit arithmetic holds; "
                       "check the extents and strides",
                       name, shape_text(box, given).text);
  }
  if (box.data == nullptr) {
    return broken.fail(errc::null_data,
                       "%s has the shape %s but its data pointer is null; only an empty view may be null", name,
                       shape_text(box, given).text);
  }
  return true;
}

[[nodiscard]] inline bool check_memory(operand const& box, char const* name, axes_given given, report& broken) {
  index_t extents = 0, strides = 0;  // their highest bits, the sign among them; of a negative stride, its complement's
  HEED_UNROLL
  for (int axis = 0; axis < 4; ++axis) {
    extents |= box.extents[axis];
    strides |= box.strides[axis] ^ (box.strides[axis] >> 63);
  }
  const bool is_small = extents >= 0 && extents < (index_t{1} << 14) && strides < (index_t{1} << 40) - 1;
  return (is_small && box.data != nullptr) || check_unusual_memory(box, name, given, broken);
}

[[nodiscard]] inline bool check_ranks(problem const& call, report& broken) {
  struct named {
    operand const* box;
    char const* name;
  };
  const int rank = call.query.rank;
  if (rank < 2 || rank > 4) {
    return broken.fail(errc::wrong_rank,
                       "query has rank %d; query, key, value and out are all rank 4 [batch_size, num_heads, seq_len, "
                       "head_dim], rank 3 [batch_size, seq_len, head_dim] or rank 2 [seq_len, head_dim]",
                       rank);
  }
  for (named other : {named{&call.key, "key"}, named{&call.value, "value"}, named{&call.out, "out"}}) {
    if (other.box->given() && other.box->rank != rank) {
      return broken.fail(errc::wrong_rank, "%s has rank %d but query has rank %d; give all of them the same rank",
                         other.name, other.box->rank, rank);
    }
  }
  if (call.lse.given() && call.lse.rank != rank - 1) {
    return broken.fail(errc::wrong_rank, "lse has rank %d but must have rank %d: the axes of query without head_dim",
                       call.lse.rank, rank - 1);
  }
  if (call.weights.given() && call.weights.rank != 4) {
    return broken.fail(errc::wrong_rank,
                       "weights has rank %d but must have rank 4 [batch_size, num_heads, seq_len_q, seq_len_kv]",
                       call.weights.rank);
  }
  for (score_output const& one : call.scores) {
    if (one.to.rank != 4) {
      return broken.fail(errc::wrong_rank,
                         "scores has rank %d but must have rank 4 [batch_size, num_heads, seq_len_q, seq_len_kv]",
                         one.to.rank);
    }
  }
  return true;
}

/// Names the first axis of an operand that differs from the size it must have, and prints both shapes.
[[nodiscard, gnu::cold, gnu::noinline]] inline bool fail_shape(problem const& call, operand const& box,
                                                               char const* name, bool has_columns, bool per_key,
                                                               index_t columns, char const* columns_name,
                                                               report& broken) {
  const index_t heads = per_key ? call.num_kv_heads : call.num_heads;
  const index_t rows = per_key ? call.seq_len_kv : call.seq_len_q;
  const errc code = box.extents[0] != call.batch_size ? errc::batch_size_mismatch
                    : box.extents[1] != heads         ? errc::num_heads_mismatch
                    : box.extents[2] != rows          ? errc::seq_len_mismatch
                    : columns_name[0] == 's'          ? errc::seq_len_mismatch
                                                      : errc::head_dim_mismatch;
  char head_axis[64] = "";
  if (box.rank == (has_columns ? 4 : 3)) {
    std::snprintf(head_axis, sizeof head_axis, "%s=%lld, ", per_key ? "num_kv_heads" : "num_heads",
                  static_cast<long long>(heads));
  }
  char batch_axis[64] = "";
  if (box.rank >= (has_columns ? 3 : 2)) {
    std::snprintf(batch_axis, sizeof batch_axis, "batch_size=%lld, ", static_cast<long long>(call.batch_size));
  }
  char column_axis[64] = "";
  if (has_columns) {
    std::snprintf(column_axis, sizeof column_axis, ", %s=%lld", columns_name, static_cast<long long>(columns));
  }
  return broken.fail(code, "%s must be [%s%s%s=%lld%s], got %s", name, batch_axis, head_axis,
                     per_key ? "seq_len_kv" : "seq_len_q", static_cast<long long>(rows), column_axis,
                     shape_text(box, has_columns ? axes_given::rows_and_columns : axes_given::rows).text);
}

/// Compares one operand with the sizes it must have.
[[nodiscard]] inline bool check_shape(problem const& call, operand const& box, char const* name, bool has_columns,
                                      bool per_key, index_t columns, char const* columns_name, report& broken) {
  const bool fits =
      box.extents[0] == call.batch_size && box.extents[1] == (per_key ? call.num_kv_heads : call.num_heads) &&
      box.extents[2] == (per_key ? call.seq_len_kv : call.seq_len_q) && (!has_columns || box.extents[3] == columns);
  return fits || fail_shape(call, box, name, has_columns, per_key, columns, columns_name, broken);
}

[[nodiscard]] inline bool check_shapes(problem const& call, report& broken) {
  if (call.head_dim_qk == 0 || call.value.extents[3] == 0) {
    return broken.fail(errc::zero_head_dim, "%s has head_dim 0, got %s; head_dim_qk and head_dim_v must be at least 1",
                       call.head_dim_qk == 0 ? "query" : "value",
                       shape_text(call.head_dim_qk == 0 ? call.query : call.value).text);
  }
  // Divisibility comes before the other axes of key: it is what a wrong head count most often means.
  if (call.key.extents[0] == call.batch_size && call.value.extents[1] == call.num_kv_heads &&
      (call.num_kv_heads == 0 ? call.num_heads != 0 : call.num_heads % call.num_kv_heads != 0)) {
    return broken.fail(errc::heads_not_divisible, "num_heads (%lld) must be a multiple of num_kv_heads (%lld)",
                       static_cast<long long>(call.num_heads), static_cast<long long>(call.num_kv_heads));
  }
  if (!check_shape(call, call.key, "key", true, true, call.head_dim_qk, "head_dim_qk", broken) ||
      !check_shape(call, call.value, "value", true, true, call.head_dim_v, "head_dim_v", broken)) {
    return false;
  }
  if (call.out.given() && !check_shape(call, call.out, "out", true, false, call.head_dim_v, "head_dim_v", broken)) {
    return false;
  }
  if (call.lse.given() && !check_shape(call, call.lse, "lse", false, false, 1, "", broken)) return false;
  if (call.weights.given() &&
      !check_shape(call, call.weights, "weights", true, false, call.seq_len_kv, "seq_len_kv", broken)) {
    return false;
  }
  for (score_output const& one : call.scores) {
    if (!check_shape(call, one.to, "scores", true, false, call.seq_len_kv, "seq_len_kv", broken)) return false;
  }
  return true;
}

[[nodiscard]] inline bool check_options(problem const& call, report& broken) {
  if (call.options.softcap.has_value() && !(*call.options.softcap > 0 && *call.options.softcap <= __DBL_MAX__)) {
    return broken.fail(errc::bad_softcap,
                       "options.softcap is %g; it must be a finite number above 0 (leave it out for no soft cap)",
                       *call.options.softcap);
  }
  if (call.options.scale.has_value() && !(__builtin_fabs(*call.options.scale) <= __DBL_MAX__)) {
    return broken.fail(errc::bad_scale,
                       "options.scale is %g; it must be a finite number (leave it out for 1/sqrt(head_dim_qk))",
                       *call.options.scale);
  }
  if (call.options.scale.has_value() && call.query.kind != element_kind::float64 &&
      __builtin_fabs(*call.options.scale) > double{__FLT_MAX__}) {
    return broken.fail(
        errc::bad_scale,
        "options.scale is %g, beyond the largest float, in which a query of %s is accumulated; scale the "
        "operands, or use a query of double",
        *call.options.scale, element_name(call.query.kind));
  }
  if (!(call.options.drop.p >= 0 && call.options.drop.p <= 1)) {
    return broken.fail(errc::bad_dropout,
                       "options.drop.p is %g; it is the probability of dropping, from 0 (leave it out) to 1",
                       call.options.drop.p);
  }
  if (call.options.threads < 0) {
    return broken.fail(
        errc::negative_threads,
        "options.threads is %d; use 0 for as many as useful, 1 for the calling thread only, n for at most n",
        call.options.threads);
  }
  const list<index_t> offsets = call.options.anchor.offsets();
  if (call.options.anchor.kind() == anchor::rule::offsets && offsets.size() != call.batch_size) {
    return broken.fail(errc::offsets_wrong_count,
                       "options.anchor: at_offset has %lld offsets for batch_size %lld; give one per batch item, or a "
                       "single number",
                       static_cast<long long>(offsets.size()), static_cast<long long>(call.batch_size));
  }
  return true;
}

/// No output may share an element with itself, another output or `input`.
[[nodiscard, gnu::noinline]] inline bool check_overlap(operand const& output, char const* output_name,
                                                       operand const& input, char const* input_name, errc code,
                                                       report& broken) {
  const overlap found = overlaps(output, input);
  if (found == overlap::no) return true;
  return broken.fail(code, "%s and %s %s; give %s memory of its own", output_name, input_name,
                     found == overlap::yes ? "share an element"
                                           : "have byte ranges that meet, and strides too irregular to compare exactly",
                     output_name);
}

/// Every index of an output has an element of its own.
[[nodiscard, gnu::noinline]] inline bool check_distinct(operand const& output, char const* name, report& broken) {
  const overlap found = overlaps_itself(output);
  if (found == overlap::no) return true;
  return broken.fail(errc::output_overlaps_itself, "%s %s; an output needs one element for each index", name,
                     found == overlap::yes ? "has strides that give two indices the same element"
                                           : "has strides too irregular to prove that every index has its own element");
}

/// The same for one gradient, whose name is put together only where it is needed.
[[nodiscard]] inline bool check_overlap(named_gradient const& output, operand const& input, char const* input_name,
                                        errc code, report& broken) {
  return overlaps(*output.box, input) == overlap::no ||
         check_overlap(*output.box, gradient_name(output).text, input, input_name, code, broken);
}

/// The numbers of at_offset; not given where there are none.
[[nodiscard]] inline operand offsets_of(attention_options const& options) noexcept {
  operand offsets;
  if (options.anchor.kind() == anchor::rule::offsets) {
    const list<index_t> numbers = options.anchor.offsets();
    offsets = operand_of(tensor_view<index_t const, 1>(numbers.data(), {numbers.size()}));
    offsets.kind = element_kind::float64;  // as wide as an index_t
  }
  return offsets;
}

[[nodiscard]] inline bool check_outputs(problem const& call, report& broken) {
  struct named {
    operand const* box;
    char const* name;
  };
  const operand offsets = offsets_of(call.options);
  const named read[] = {
      {&call.query, "query"}, {&call.key, "key"}, {&call.value, "value"}, {&offsets, "the offsets of at_offset"}};
  const named written[] = {{&call.out, "out"}, {&call.lse, "lse"}, {&call.weights, "weights"}};
  // One output, against the inputs and the outputs before it.
  const auto check = [&](named output, int others, score_output const* scores_end) {
    if (output.box->empty()) return true;
    if (!check_distinct(*output.box, output.name, broken)) return false;
    const byte_range range = range_of(*output.box);
    for (named input : read) {
      if (!lies_outside(*input.box, range) &&
          !check_overlap(*output.box, output.name, *input.box, input.name, errc::output_overlaps_input, broken)) {
        return false;
      }
    }
    for (int i = 0; i < others; ++i) {
      if (!check_overlap(*output.box, output.name, *written[i].box, written[i].name, errc::output_overlaps_output,
                         broken)) {
        return false;
      }
    }
    for (score_output const* one = call.scores.begin(); one != scores_end; ++one) {
      if (!check_overlap(*output.box, output.name, one->to, "scores", errc::output_overlaps_output, broken)) {
        return false;
      }
    }
    return true;
  };
  for (int i = 0; i < 3; ++i) {
    if (written[i].box->given() && !check(written[i], i, call.scores.begin())) return false;
  }
  for (score_output const& one : call.scores) {
    if (!check({&one.to, "scores"}, 3, &one)) return false;
  }
  return true;
}

/// Reads the sizes of a call from its operands and checks every rule that does not concern a mask.
[[nodiscard]] inline bool read_problem(problem& call, report& broken) {
  if (!check_ranks(call, broken)) return false;
  struct named {
    operand const* box;
    char const* name;
    axes_given axes = axes_given::rows_and_columns;
  };
  for (named other :
       {named{&call.query, "query"}, named{&call.key, "key"}, named{&call.value, "value"}, named{&call.out, "out"},
        named{&call.lse, "lse", axes_given::rows}, named{&call.weights, "weights"}}) {
    if (other.box->given() && !check_memory(*other.box, other.name, other.axes, broken)) return false;
  }
  for (score_output const& one : call.scores) {
    if (!check_memory(one.to, "scores", axes_given::rows_and_columns, broken)) return false;
  }
  call.batch_size = call.query.extents[0];
  call.num_heads = call.query.extents[1];
  call.num_kv_heads = call.key.extents[1];
  call.group_size = call.num_kv_heads == 0 ? 1 : call.num_heads / call.num_kv_heads;
  call.seq_len_q = call.query.extents[2];
  call.seq_len_kv = call.key.extents[2];
  call.head_dim_qk = call.query.extents[3];
  call.head_dim_v = call.value.extents[3];
  if (!check_shapes(call, broken) || !check_options(call, broken)) return false;
  if (call.lse.given() && call.lse.kind != element_kind::float32 &&
      !(call.lse.kind == element_kind::float64 && call.query.kind == element_kind::float64)) {
    return broken.fail(errc::wrong_element_type,
                       "lse is %s but query is %s; lse is float, or double where query is double",
                       element_name(call.lse.kind), element_name(call.query.kind));
  }
  return check_outputs(call, broken);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
