// What is written for whole rows without a kernel: the logarithm of the sum, and what stands for keys that are not
// seen.
#pragma once

#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

inline void write_lse(problem const& call, index_t batch, index_t head, index_t row, double value) noexcept {
  void* const place = call.lse.row(batch, head, row);
  if (call.lse.kind == element_kind::float64) {
    *static_cast<double*>(place) = value;
  } else {
    *static_cast<float*>(place) = static_cast<float>(value);
  }
}

/// Columns [begin, end) of one row of `to` are 0, or -inf.
inline void fill_row(operand const& to, index_t batch, index_t head, index_t row, index_t begin, index_t end,
                     float value) noexcept {
  with_element(to.kind, [&](auto element) {
    using element_type = decltype(element);
    element_type* const line = static_cast<element_type*>(to.row(batch, head, row));
    const element_type filling = static_cast<element_type>(value);
    for (index_t column = begin; column < end; ++column) line[column * to.strides[3]] = filling;
  });
}

/// Keys [begin, end) of a row at which there is nothing to see.
inline void write_unseen_scores(problem const& call, index_t batch, index_t head, index_t row, index_t begin,
                                index_t end) noexcept {
  for (score_output const& one : call.scores) fill_row(one.to, batch, head, row, begin, end, -__builtin_inff());
}

/// A row that exists in the buffers and sees no key.
inline void write_empty_row(problem const& call, index_t batch, index_t head, index_t row) noexcept {
  fill_row(call.out, batch, head, row, 0, call.head_dim_v, 0.0f);
  if (call.lse.given()) write_lse(call, batch, head, row, -__builtin_inf());
  if (call.weights.given()) fill_row(call.weights, batch, head, row, 0, call.seq_len_kv, 0.0f);
  write_unseen_scores(call, batch, head, row, 0, call.seq_len_kv);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
