// heed::error and its codes: one code for each rule that a call can break.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "heed/base/config.hpp"

namespace heed {

/// The rule that a call broke; `errc{}` is `ok`.
enum class errc : int {
  ok = 0,
  negative_extent,         ///< a view has an extent below zero
  size_overflow,           ///< a view spans more bytes than 64-bit arithmetic holds
  null_data,               ///< a view with elements has no data
  wrong_rank,              ///< a view has a rank that its argument does not take
  batch_size_mismatch,     ///< two operands disagree about batch_size
  num_heads_mismatch,      ///< two operands disagree about num_heads or num_kv_heads
  heads_not_divisible,     ///< num_heads is not a multiple of num_kv_heads
  seq_len_mismatch,        ///< two operands disagree about seq_len_q or seq_len_kv
  head_dim_mismatch,       ///< two operands disagree about head_dim_qk or head_dim_v
  zero_head_dim,           ///< head_dim_qk or head_dim_v is zero
  bad_scale,               ///< scale is NaN or infinite
  bad_softcap,             ///< softcap is NaN, infinite, 0 or negative
  bad_dropout,             ///< the probability of dropout is NaN, below 0 or above 1
  wrong_element_type,      ///< lse holds another type than the accumulate type allows
  mask_not_broadcastable,  ///< a mask does not broadcast to [batch_size, num_heads, seq_len_q, seq_len_kv]
  bias_not_broadcastable,  ///< a bias does not broadcast to [batch_size, num_heads, seq_len_q, seq_len_kv]
  slopes_wrong_count,      ///< alibi has not one slope for each query head
  logits_wrong_count,      ///< a sink has not one logit for each query head
  table_wrong_shape,       ///< the table of a relative_bias is not [buckets, num_heads] with 2 buckets or more
  bad_max_distance,        ///< max_distance of a relative_bias is not above the distances with a bucket of their own
  lengths_wrong_count,     ///< a list of lengths has not one number for each batch item
  lengths_out_of_range,    ///< a length lies outside its buffer, or key_start lies behind key
  negative_window,         ///< a bound of a window is below zero
  documents_wrong_count,   ///< documents have not one id for each key, or for each row
  bad_block_size,          ///< block_rows or block_keys is below one
  bad_pattern,             ///< a number of a pattern of blocks is below the least that it may be
  offsets_wrong_count,     ///< at_offset has not one number for each batch item
  negative_threads,        ///< options.threads is below zero
  broken_executor,         ///< options.executor did not run its tasks once each, or did not wait for them
  output_overlaps_input,   ///< an output shares an element with an input
  output_overlaps_output,  ///< two outputs share an element
  output_overlaps_itself,  ///< two indices of one output name the same element
  unused_output,           ///< an output was asked for that the function does not write (merge: weights, scores)
  gradient_without_stage,  ///< a gradient of a bias, sink, slopes or table that the rule does not have
  gradient_wrong_shape,    ///< a gradient of a bias, sink, slopes or table has not the shape of that
  not_mergeable,           ///< merge_heads: no single stride steps over head and head_dim
  unknown_isa,             ///< HEED_ISA names no level
  unavailable_isa,         ///< HEED_ISA names a level that this processor does not have
  index_out_of_range,      ///< an index (a batch item, a head) lies outside its axis
  bad_file,                ///< a file cannot be read or written, or does not hold what it should
};

/// What every function of heed throws: `what()` names the argument, its value, the rule and the fix.
class error : public std::exception {
 public:
  HEED_INLINE error(errc code, std::string text) : code_(code), text_(std::move(text)) {}
  [[nodiscard]] HEED_INLINE errc code() const noexcept { return code_; }
  [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

 private:
  errc code_;
  std::string text_;
};

namespace detail {
inline namespace HEED_ABI {

/// Throws; where exceptions are off it prints the text and traps (call `validate` first there).
[[noreturn, gnu::cold, gnu::noinline]] inline void raise(errc code, std::string text) {
#if HEED_EXCEPTIONS
  throw error(code, std::move(text));
#else
  std::fprintf(stderr, "%s\n", text.c_str());
  (void)code;
  __builtin_trap();
#endif
}

}  // namespace HEED_ABI
}  // namespace detail
}  // namespace heed
