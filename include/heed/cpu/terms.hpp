// The terms of dense stages, brought from the caller's rows to the tiles of a rule, block by block.
#pragma once

#include "heed/cpu/packing.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Rows of terms lie far apart, where no hardware prefetcher follows, and often so that they crowd few sets of a cache:
/// those of the next tile are asked for, no more. That is the rows behind `area`, or, behind the last row of a piece of
/// work, its first ones at the next keys.
inline void want_terms(operand const& box, block const& area, index_t row_begin, index_t row_end,
                       read_ahead& ahead) noexcept {
  if (box.strides[2] == 0 || box.strides[3] != 1) return;
  const bool wraps = area.query_end >= row_end;
  const index_t begin = wraps ? area.key_end : area.key_begin;
  const index_t bytes = element_size(box.kind);
  const index_t keys = lesser(area.key_end - area.key_begin, box.extents[3] - begin);
  if (keys <= 0) return;
  void const* const first = box.row(area.batch, area.head, wraps ? row_begin : area.query_end);
  ahead.want_rows(static_cast<char const*>(first) + begin * bytes, keys * bytes, box.strides[2] * bytes);
}

/// Whether the terms of a dense stage are read where they lie: Real, and side by side.
template <class Real>
[[nodiscard]] bool terms_in_place(operand const& box) noexcept {
  return box.strides[3] == 1 && box.kind == (sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64);
}

/// Where the terms of every dense stage for one block are: with the caller, where they are Real and side by side, or in
/// `packed`, with room of `step` numbers for each stage. The piece of work has rows [row_begin, row_end).
template <class Real>
void load_terms(kernel<Real> const& run, block const& area, index_t row_begin, index_t row_end, Real* packed,
                index_t step, term_rows<Real>* to, read_ahead& ahead) {
  const index_t keys = area.key_end - area.key_begin, rows = area.query_end - area.query_begin;
  for (int number = 0; number < run.rule.dense_stages(); ++number, packed += step) {
    operand const& box = run.rule.terms(number);
    char const* const corner = static_cast<char const*>(box.row(area.batch, area.head, area.query_begin)) +
                               area.key_begin * box.strides[3] * element_size(box.kind);
    want_terms(box, area, row_begin, row_end, ahead);
    if (terms_in_place<Real>(box)) {
      to[number] = {reinterpret_cast<Real const*>(corner), box.strides[2]};
      continue;
    }
    run.rule_verb.pack_terms(corner, box.kind, box.strides[2], box.strides[3], rows, keys, packed);
    to[number] = {packed, keys};
  }
}

}  // namespace HEED_ABI
}  // namespace heed::detail
