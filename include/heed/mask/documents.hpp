// documents: several texts in one row of tokens; a token sees its own text.
#pragma once

#include "heed/base/list.hpp"
#include "heed/mask/strip.hpp"

namespace heed {

/// Key j is visible to row i iff both have the same document id.
///
/// ids: an index_t for each key, [Skv] for all batch items or [batch_size * Skv]; any numbers in any order, a document
///   may come in several parts. Row i has the id of key i + off (`options.anchor` gives off; bottom_right by default);
///   where there is no such key the row belongs to no document and is empty.
/// query_ids: an id for each row instead, [Sq] or [batch_size * Sq]; then positions do not matter.
/// Both lists must outlive the call. Not causal by itself: `causal{} & documents{...}`.
/// Cost: other documents' blocks are never read, and query tiles end at borders between documents that are long enough,
///   so that most blocks are wholly visible.
/// Source: Krell et al., "Efficient Sequence Packing without Cross-contamination" (2021).
struct documents {
  list<index_t> ids{};
  list<index_t> query_ids{};

  /// Which number belongs to which key depends on the sizes of the call: it is asked as detail::document_ids.
  static constexpr bool needs_call = true;
};

namespace detail {

/// Ids of some places [begin, end).
struct id_range {
  index_t least, most;

  HEED_FN constexpr id_range(index_t const* ids, index_t begin, index_t end) noexcept
      : least(ids[begin]), most(ids[begin]) {
    for (index_t place = begin + 1; place < end; ++place) {
      least = lesser(least, ids[place]);
      most = greater(most, ids[place]);
    }
  }
  [[nodiscard]] HEED_FN constexpr bool has(index_t id) const noexcept { return id >= least && id <= most; }
  [[nodiscard]] HEED_FN constexpr bool is_one() const noexcept { return least == most; }
};

/// `documents` of a call with so many keys and rows.
struct document_ids {
  index_t const* key_ids;      // [batch, keys]
  index_t const* row_ids;      // [batch, rows], null where rows have the ids of keys
  index_t key_step, row_step;  // from one batch item to the next, 0 where all have the same ids
  index_t keys;

  HEED_FN constexpr document_ids(documents const& rule, index_t rows, index_t seq_len_kv) noexcept
      : key_ids(rule.ids.data()),
        row_ids(rule.query_ids.given() ? rule.query_ids.data() : nullptr),
        key_step(rule.ids.size() == seq_len_kv ? 0 : seq_len_kv),
        row_step(rule.query_ids.size() == rows ? 0 : rows),
        keys(seq_len_kv) {}

  /// Rows of a block that belong to a document, and where their ids are: of row i at [i + shift].
  struct rows_there {
    index_t begin, end;
    index_t const* ids;
    index_t shift;
  };
  [[nodiscard]] HEED_FN constexpr rows_there rows_of(block const& area) const noexcept {
    if (row_ids != nullptr) return {area.query_begin, area.query_end, row_ids + area.batch * row_step, 0};
    const index_t begin = greater(area.query_begin, saturating_sub(0, area.offset));
    const index_t end = lesser(area.query_end, saturating_sub(keys, area.offset));
    return {begin, greater(begin, end), key_ids + area.batch * key_step, begin < end ? area.offset : 0};
  }

  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const noexcept {
    const rows_there row = rows_of({at.batch, at.head, at.query, at.query + 1, at.key, at.key + 1, at.offset});
    return row.begin < row.end && row.ids[at.query + row.shift] == key_ids[at.batch * key_step + at.key];
  }

  /// `partial` where the ids of rows and keys lie between each other.
  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const noexcept {
    const rows_there there = rows_of(area);
    if (there.begin >= there.end) return cover::none;
    const id_range rows(there.ids, there.begin + there.shift, there.end + there.shift);
    const id_range columns(key_ids + area.batch * key_step, area.key_begin, area.key_end);
    if (rows.least > columns.most || rows.most < columns.least) return cover::none;
    const bool whole = there.end - there.begin == area.query_end - area.query_begin;
    return whole && rows.is_one() && columns.is_one() ? cover::full : cover::partial;
  }

  [[nodiscard]] HEED_FN constexpr index_t next_border(block const& area) const noexcept {
    const rows_there there = rows_of(area);
    if (area.query_begin < there.begin) return lesser(there.begin, area.query_end);
    if (area.query_begin >= there.end) return area.query_end;
    index_t row = area.query_begin + 1;
    while (row < there.end && there.ids[row + there.shift] == there.ids[area.query_begin + there.shift]) ++row;
    return row;
  }
};

}  // namespace detail
}  // namespace heed
