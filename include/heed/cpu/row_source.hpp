// Rows as the verbs for few query rows read them: those of K and V where they lie, or packed block by block; a row of Q
// packed.
#pragma once

#include "heed/base/fill.hpp"
#include "heed/cpu/packing.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct row_source {
  void const* first;
  element_kind kind;
  index_t stride;
  index_t columns;  // at least a whole vector
  index_t begin;    // the key of `first`
  index_t end;      // keys from here on are not wanted, or not here
  bool in_place;

  [[nodiscard]] void const* at(index_t key) const noexcept {
    return static_cast<char const*>(first) + (key - begin) * stride * element_size(kind);
  }
};

/// In place where a row's elements follow one another, fill a vector, and are of a type that the verbs read.
template <class Real>
[[nodiscard]] row_source row_source_of(row_verbs<Real> const& verb, operand const& box, index_t batch, index_t head,
                                       sequence const& seq) noexcept {
  constexpr element_kind real_kind = sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64;
  const index_t columns = greater(box.extents[3], verb.lanes);
  const bool readable = box.kind == real_kind || (verb.widens && element_size(box.kind) == 2);
  if (readable && box.strides[3] == 1 && box.extents[3] == columns) {
    return {box.row(batch, head, 0), box.kind, box.strides[2], columns, 0, greater(seq.key_begin, seq.key_end), true};
  }
  return {nullptr, real_kind, columns, columns, 0, 0, false};
}

/// Keys [keys.begin, keys.end) of a source. Rows shorter than a vector are filled up with 0.
template <class Real>
[[nodiscard]] row_source loaded(verbs<Real> const& verb, row_source source, operand const& box, Real* packed,
                                index_t batch, index_t head, key_range keys) {
  if (source.in_place) return source;
  source.first = packed;
  source.begin = keys.begin;
  source.end = keys.end;
  const index_t columns = box.extents[3];
  if (columns == source.columns) {
    verb.pack_rows(box.row(batch, head, keys.begin), box.kind, box.strides[2], box.strides[3], keys.end - keys.begin,
                   columns, packed);
    return source;
  }
  for (index_t key = keys.begin; key < keys.end; ++key, packed += source.columns) {
    verb.pack_rows(box.row(batch, head, key), box.kind, 0, box.strides[3], 1, columns, packed);
    for (index_t i = columns; i < source.columns; ++i) packed[i] = Real(0);
  }
  return source;
}

/// The same keys of `source` as Real, in `packed`, and 0 in place of those whose scores are -inf: what a row adds up
/// that may not see them.
template <class Real>
[[nodiscard]] row_source visible_rows(verbs<Real> const& verb, row_source const& source, Real const* scores,
                                      Real* packed, key_range keys) noexcept {
  constexpr element_kind real_kind = sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64;
  const index_t columns = source.columns;
  const row_source visible{packed, real_kind, columns, columns, keys.begin, keys.end, false};
  for (index_t key = keys.begin; key < keys.end; ++key, ++scores, packed += columns) {
    if (*scores == -infinity<Real>) {
      fill(packed, columns, Real(0));
    } else {
      verb.pack_rows(source.at(key), source.kind, 0, 1, 1, columns, packed);
    }
  }
  return visible;
}

/// A query row, scaled, in whole vectors against keys of `columns` columns. `line` has room for one that is not read
/// where it lies.
template <class Real>
void pack_query_row(kernel<Real> const& run, row_verbs<Real> const& verb, void const* row, index_t columns, Real* line,
                    Real* to) noexcept {
  operand const& query = run.call.query;
  const index_t given = query.extents[3], whole = round_down_pow2(columns, verb.lanes);
  Real const* from = line;
  if (given == columns && has_plain_rows<Real>(query)) {
    from = static_cast<Real const*>(row);
  } else {
    run.verb.pack_rows(row, query.kind, 0, query.strides[3], 1, given, line);
    for (index_t i = given; i < whole; ++i) line[i] = Real(0);
  }
  (void)verb.scale_row(from, whole, run.scale, to);
  if (whole == columns) return;
  // The last vector reaches back; what it repeats is 0.
  for (index_t i = 0; i < verb.lanes; ++i) {
    const index_t column = columns - verb.lanes + i;
    to[whole + i] = column < given && column >= whole ? from[column] * run.scale : Real(0);
  }
}

}  // namespace HEED_ABI
}  // namespace heed::detail
