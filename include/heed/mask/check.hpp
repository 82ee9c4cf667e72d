// What a mask must fulfil for a call: it broadcasts, its numbers are in range, its memory is not an output.
#pragma once

#include "heed/mask/block_sparse.hpp"
#include "heed/mask/combine.hpp"
#include "heed/mask/dense.hpp"
#include "heed/mask/documents.hpp"
#include "heed/mask/lengths.hpp"
#include "heed/mask/prefix.hpp"
#include "heed/mask/window.hpp"
#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Most rules have nothing to check.
template <class Rule>
[[nodiscard]] bool check_rule(Rule const&, problem const&, report&) noexcept {
  return true;
}

/// No output may lie in what the rule reads.
[[nodiscard]] inline bool check_rule_memory(operand const& read, char const* name, problem const& call,
                                            report& broken) {
  for (score_output const& one : call.scores) {
    if (!check_overlap(one.to, "scores", read, name, errc::output_overlaps_input, broken)) return false;
  }
  return check_overlap(call.out, "out", read, name, errc::output_overlaps_input, broken) &&
         check_overlap(call.lse, "lse", read, name, errc::output_overlaps_input, broken) &&
         check_overlap(call.weights, "weights", read, name, errc::output_overlaps_input, broken) &&
         (call.gradients == nullptr || call.gradients->all_of([&](named_gradient const& one) {
           return check_overlap(one, read, name, errc::output_overlaps_input, broken);
         }));
}

/// Whether what a rule reads for each score broadcasts to the scores and may be read; `kind` names it in the text.
[[nodiscard]] inline bool check_broadcast(operand const& box, char const* name, char const* kind, errc code,
                                          problem const& call, report& broken) {
  const index_t wanted[4] = {call.batch_size, call.num_heads, call.seq_len_q, call.seq_len_kv};
  bool broadcasts = true;
  for (int axis = 0; axis < 4; ++axis) {
    broadcasts = broadcasts && (box.extents[axis] == 1 || box.extents[axis] == wanted[axis]);
  }
  const index_t leading = box.rank == 3 ? box.extents[1] : 0;
  if (!broadcasts) {
    return broken.fail(
        code,
        "%s has the shape %s, which does not broadcast to [batch_size=%lld, num_heads=%lld, "
        "seq_len_q=%lld, seq_len_kv=%lld]: shapes align right, and each axis must be 1 or equal%s%s%s",
        name, shape_text(box, axes_given::aligned).text, static_cast<long long>(wanted[0]),
        static_cast<long long>(wanted[1]), static_cast<long long>(wanted[2]), static_cast<long long>(wanted[3]),
        leading != 0 && leading == wanted[0] ? "; rank 3 is [num_heads, seq_len_q, seq_len_kv], one " : "",
        leading != 0 && leading == wanted[0] ? kind : "",
        leading != 0 && leading == wanted[0] ? " per batch item is [batch_size, 1, seq_len_q, seq_len_kv]" : "");
  }
  return check_memory(box, name, axes_given::aligned, broken) && check_rule_memory(box, name, call, broken);
}

template <bool Keep>
[[nodiscard]] bool check_rule(dense_mask<Keep> const& mask, problem const& call, report& broken) {
  operand box;
  box.data = const_cast<void*>(mask.data());
  box.kind = element_kind::boolean;
  box.rank = mask.rank();
  for (std::size_t axis = 0; axis < 4; ++axis) {
    box.extents[axis] = mask.extent(axis);
    box.strides[axis] = mask.stride(axis);
  }
  return check_broadcast(box, Keep ? "keep_mask" : "drop_mask", "mask", errc::mask_not_broadcastable, call, broken);
}

[[nodiscard]] inline bool check_length_list(list<index_t> const& numbers, char const* name, index_t most,
                                            char const* most_name, problem const& call, report& broken) {
  if (!numbers.given()) return true;
  if (numbers.size() != call.batch_size) {
    return broken.fail(errc::lengths_wrong_count,
                       "lengths.%s has %lld numbers for batch_size %lld; give one per batch item", name,
                       static_cast<long long>(numbers.size()), static_cast<long long>(call.batch_size));
  }
  for (index_t batch = 0; batch < numbers.size(); ++batch) {
    if (numbers[batch] < 0 || numbers[batch] > most) {
      return broken.fail(errc::lengths_out_of_range, "lengths.%s[%lld] is %lld; it must lie in [0, %s=%lld]", name,
                         static_cast<long long>(batch), static_cast<long long>(numbers[batch]), most_name,
                         static_cast<long long>(most));
    }
  }
  operand box = operand_of(tensor_view<index_t const, 1>(numbers.data(), {numbers.size()}));
  box.kind = element_kind::float64;  // as wide as an index_t
  return check_rule_memory(box, "lengths", call, broken);
}

[[nodiscard]] inline bool check_rule(lengths const& mask, problem const& call, report& broken) {
  if (!check_length_list(mask.query, "query", call.seq_len_q, "seq_len_q", call, broken) ||
      !check_length_list(mask.key, "key", call.seq_len_kv, "seq_len_kv", call, broken) ||
      !check_length_list(mask.key_start, "key_start", call.seq_len_kv, "seq_len_kv", call, broken)) {
    return false;
  }
  for (index_t batch = 0; batch < mask.key_start.size(); ++batch) {
    const index_t end = mask.key.given() ? mask.key[batch] : call.seq_len_kv;
    if (mask.key_start[batch] > end) {
      return broken.fail(
          errc::lengths_out_of_range,
          "lengths.key_start[%lld] is %lld, behind lengths.key (%lld); visible keys are [key_start, key), "
          "both counted from the start of the buffer",
          static_cast<long long>(batch), static_cast<long long>(mask.key_start[batch]), static_cast<long long>(end));
    }
  }
  return true;
}

[[nodiscard]] inline bool check_rule(window const& mask, problem const&, report& broken) {
  for (bool is_left : {true, false}) {
    std::optional<index_t> const& bound = is_left ? mask.left : mask.right;
    if (!bound.has_value() || *bound >= 0) continue;
    return broken.fail(errc::negative_window,
                       "window.%s is %lld; it counts keys %s the row's own position, so it must be 0 or more (leave it "
                       "out for no bound)",
                       is_left ? "left" : "right", static_cast<long long>(*bound), is_left ? "before" : "behind");
  }
  return true;
}

/// Numbers that a rule reads: no output may lie in them.
[[nodiscard]] inline bool check_list_memory(list<index_t> const& numbers, char const* name, problem const& call,
                                            report& broken) {
  operand box = operand_of(tensor_view<index_t const, 1>(numbers.data(), {numbers.size()}));
  box.kind = element_kind::float64;  // as wide as an index_t
  return check_rule_memory(box, name, call, broken);
}

[[nodiscard]] inline bool check_rule(prefix const& mask, problem const& call, report& broken) {
  if (mask.lengths.size() != call.batch_size) {
    return broken.fail(errc::lengths_wrong_count,
                       "prefix.lengths has %lld numbers for batch_size %lld; give one per batch item",
                       static_cast<long long>(mask.lengths.size()), static_cast<long long>(call.batch_size));
  }
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    if (mask.lengths[batch] >= 0) continue;
    return broken.fail(errc::lengths_out_of_range,
                       "prefix.lengths[%lld] is %lld; it counts keys, so it must be 0 or more (0 is causal)",
                       static_cast<long long>(batch), static_cast<long long>(mask.lengths[batch]));
  }
  return check_list_memory(mask.lengths, "prefix", call, broken);
}

[[nodiscard]] inline bool check_id_list(list<index_t> const& numbers, char const* name, index_t each,
                                        char const* each_name, problem const& call, report& broken) {
  if (numbers.size() == each || numbers.size() == saturating_mul(call.batch_size, each)) {
    return check_list_memory(numbers, "documents", call, broken);
  }
  return broken.fail(
      errc::documents_wrong_count,
      "documents.%s has %lld numbers; give %s=%lld for all batch items, or batch_size=%lld times as many", name,
      static_cast<long long>(numbers.size()), each_name, static_cast<long long>(each),
      static_cast<long long>(call.batch_size));
}

[[nodiscard]] inline bool check_rule(documents const& mask, problem const& call, report& broken) {
  return check_id_list(mask.ids, "ids", call.seq_len_kv, "seq_len_kv", call, broken) &&
         (!mask.query_ids.given() ||
          check_id_list(mask.query_ids, "query_ids", call.seq_len_q, "seq_len_q", call, broken));
}

[[nodiscard]] inline bool check_rule(block_sparse const& mask, problem const& call, report& broken) {
  for (bool is_rows : {true, false}) {
    const index_t size = is_rows ? mask.block_rows : mask.block_keys;
    if (size >= 1) continue;
    return broken.fail(errc::bad_block_size, "block_sparse.%s is %lld; it must be at least 1",
                       is_rows ? "block_rows" : "block_keys", static_cast<long long>(size));
  }
  const index_t wanted[4] = {call.batch_size, call.num_heads, ceil_div(call.seq_len_q, mask.block_rows),
                             ceil_div(call.seq_len_kv, mask.block_keys)};
  operand box;
  box.data = const_cast<void*>(mask.blocks.data());
  box.kind = element_kind::boolean;
  box.rank = mask.blocks.rank();
  bool fits = box.rank > 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    box.extents[axis] = mask.blocks.extent(axis);
    box.strides[axis] = mask.blocks.stride(axis);
    fits = fits && (box.extents[axis] == 1 || box.extents[axis] == wanted[axis]);
  }
  if (!fits) {
    return broken.fail(errc::mask_not_broadcastable,
                       "block_sparse.blocks has %s%s, which does not broadcast to [batch_size=%lld, num_heads=%lld, "
                       "seq_len_q / block_rows=%lld, seq_len_kv / block_keys=%lld], both rounded up: shapes align "
                       "right, and each axis must be 1 or equal",
                       box.rank > 0 ? "the shape " : "no shape",
                       box.rank > 0 ? shape_text(box, axes_given::aligned).text : "", static_cast<long long>(wanted[0]),
                       static_cast<long long>(wanted[1]), static_cast<long long>(wanted[2]),
                       static_cast<long long>(wanted[3]));
  }
  return check_memory(box, "block_sparse.blocks", axes_given::aligned, broken) &&
         check_rule_memory(box, "block_sparse", call, broken);
}

/// Every rule that `&` has joined.
template <class First, class Second>
[[nodiscard]] bool check_rule(both<First, Second> const& joined, problem const& call, report& broken) {
  return check_rule(joined.first, call, broken) && check_rule(joined.second, call, broken);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
