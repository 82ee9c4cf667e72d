// K and V as the verbs take them: where they lie, packed by a piece of work for itself, or packed once per kv head.
#pragma once

#include "heed/base/power_of_2.hpp"
#include "heed/cpu/table.hpp"
#include "heed/cpu/tuning.hpp"
#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Where the words of K or V come from.
enum class placement : unsigned char { in_place, packed_by_piece, packed_once };

/// K or V of some kv heads, packed for all pieces of work that use them.
template <class Real>
struct packed_heads {
  Real* first = nullptr;  // null: not packed once
  index_t head_words = 0;
  index_t row_words = 0;
};

/// One call on one instruction set.
template <class Real>
struct kernel {
  problem const& call;
  verbs<Real> const& verb;
  rule_view rule;
  rule_verbs<Real> rule_verb;
  Real scale;        // goes into the packed queries
  Real to_exponent;  // from a difference of scores to an exponent of 2
  Real score_unit;   // what a score of 1 stands for: scale, where the queries do not have it
  Real rule_unit;    // the same, before the soft cap and the rule
  Real cap;          // 0: none
  index_t block_keys;
  packed_heads<Real> key{};
  packed_heads<Real> value{};
  index_t first_packed_head = 0;  // of all kv heads of the batch

  /// Whether scores that no mask hides are changed before they are softmaxed.
  [[nodiscard]] bool caps() const noexcept { return cap != Real(0) || rule_unit != Real(1); }

  /// Words in a packed row: one for each element, or for two of them; whole lines.
  [[nodiscard]] index_t words_of(index_t columns) const noexcept {
    return ceil_div_pow2(columns, verb.keys_per_line()) * verb.words_per_line;
  }
  [[nodiscard]] index_t query_words() const noexcept { return words_of(call.head_dim_qk); }
  /// Words in a row of V: those of keys_per_line neighbouring keys.
  [[nodiscard]] index_t value_words() const noexcept { return call.head_dim_v * verb.words_per_line; }
  [[nodiscard]] index_t whole_words(index_t keys) const noexcept { return round_up_pow2(keys, verb.elements_per_word); }
  [[nodiscard]] index_t whole_lines(index_t keys) const noexcept { return round_up_pow2(keys, verb.keys_per_line()); }
};

/// Whether the elements of a row are words of the verbs, whole lines of them, and follow one another: then they are
/// used where they lie.
template <class Real>
[[nodiscard]] bool has_plain_rows(operand const& box, int elements_per_word = 1, int words_per_line = 1) noexcept {
  if (box.extents[3] > 1 && box.strides[3] != 1) return false;
  if (elements_per_word == 1) {
    return box.kind == (sizeof(Real) == 4 ? element_kind::float32 : element_kind::float64);
  }
  if (mod_pow2(box.extents[3], elements_per_word * words_per_line) != 0) return false;
  const index_t odd = box.strides[0] | box.strides[1] | box.strides[2];
  return odd % 2 == 0 && reinterpret_cast<std::uintptr_t>(box.data) % 4 == 0;
}

/// Whether the rows of weights can hold scores until the maximum of each row is known: then they are finished where
/// they lie. Otherwise the scores are computed again.
template <class Real>
[[nodiscard]] bool weights_hold_scores(problem const& call) noexcept {
  return call.weights.given() && has_plain_rows<Real>(call.weights);
}

/// Words that one kv head takes where K, or V, or both are packed once.
template <class Real>
[[nodiscard]] index_t packed_words(kernel<Real> const& run, placement key, placement value) noexcept {
  const index_t key_words = run.call.seq_len_kv * run.query_words();
  const index_t value_words = ceil_div_pow2(run.call.seq_len_kv, run.verb.keys_per_line()) * run.value_words();
  return (key == placement::packed_once ? key_words : 0) + (value == placement::packed_once ? value_words : 0);
}

/// Whether the rows of K or V are plain, and lie close together or serve too few queries to repay packing.
template <class Real>
[[nodiscard]] bool is_read_in_place(kernel<Real> const& run, operand const& box) noexcept {
  const bool is_close = box.extents[2] <= 1 || box.strides[2] == box.extents[3];
  return has_plain_rows<Real>(box, run.verb.elements_per_word, run.verb.words_per_line) &&
         (is_close || run.call.group_size * run.call.seq_len_q < rows_that_repay_packing);
}

/// K is used in place where it can be. So is V, except that its pairs are of neighbouring keys and never lie in memory.
/// Rows served by one kv head and by one piece of work decide who packs; beyond packed_once_bytes each piece does.
template <class Real>
[[nodiscard]] placement placement_of(kernel<Real> const& run, operand const& box, index_t piece_rows) noexcept {
  problem const& call = run.call;
  const index_t rows_served = call.group_size * call.seq_len_q;
  const bool is_paired_value = run.verb.elements_per_word > 1 && &box == &call.value;
  if (!is_paired_value && is_read_in_place(run, box)) return placement::in_place;
  const index_t head_words = packed_words(run, placement::packed_once, placement::packed_once);
  const index_t head_bytes = head_words * static_cast<index_t>(sizeof(Real));
  return rows_served > piece_rows && head_bytes <= packed_once_bytes ? placement::packed_once
                                                                     : placement::packed_by_piece;
}

/// Rows [begin, end) of K, or of another operand that is read like it: to `to`.
template <class Real>
void pack_key_rows(kernel<Real> const& run, operand const& box, index_t batch, index_t head, index_t begin, index_t end,
                   Real* to) {
  run.verb.pack_rows(box.row(batch, head, begin), box.kind, box.strides[2], box.strides[3], end - begin, box.extents[3],
                     to);
}

/// The same of V: to `to`, which begins with a whole row of lines.
template <class Real>
void pack_value_rows(kernel<Real> const& run, operand const& box, index_t batch, index_t head, index_t begin,
                     index_t end, Real* to) {
  void const* const first = box.row(batch, head, begin);
  if (run.verb.pack_value == nullptr) {
    return run.verb.pack_rows(first, box.kind, box.strides[2], box.strides[3], end - begin, box.extents[3], to);
  }
  run.verb.pack_value(first, box.kind, box.strides[2], box.strides[3], mod_pow2(begin, run.verb.keys_per_line()),
                      end - begin, box.extents[3], to);
}

/// Rows of K, or rows of V, which hold a line of keys each, from one key on.
template <class Real>
struct key_rows {
  Real const* first;
  index_t stride;

  [[nodiscard]] Real const* at(index_t row) const noexcept { return first + row * stride; }
};

/// Rows of K or V from one on, of those that are packed once.
template <class Real>
[[nodiscard]] key_rows<Real> packed_rows(kernel<Real> const& run, packed_heads<Real> const& packed, index_t batch,
                                         index_t head, index_t row) noexcept {
  const index_t place = batch * run.call.num_kv_heads + head - run.first_packed_head;
  return {packed.first + place * packed.head_words + row * packed.row_words, packed.row_words};
}

/// Rows of an operand that is read like K, where they lie or in `packed`, which is null then.
template <class Real>
[[nodiscard]] key_rows<Real> rows_like_key(kernel<Real> const& run, operand const& box, Real* packed, index_t batch,
                                           index_t head, index_t begin, index_t end) {
  if (packed == nullptr) {
    return {static_cast<Real const*>(box.row(batch, head, begin)),
            div_pow2(box.strides[2], run.verb.elements_per_word)};
  }
  pack_key_rows(run, box, batch, head, begin, end, packed);
  return {packed, run.words_of(box.extents[3])};
}

/// Rows from `begin` to `end` of K. `packed` is the piece's own room, null where it does not pack.
template <class Real>
[[nodiscard]] key_rows<Real> rows_of_key(kernel<Real> const& run, Real* packed, index_t batch, index_t head,
                                         index_t begin, index_t end) {
  if (run.key.first != nullptr) return packed_rows(run, run.key, batch, head, begin);
  return rows_like_key(run, run.call.key, packed, batch, head, begin, end);
}

/// Rows of V, the first of which holds key `begin`.
template <class Real>
[[nodiscard]] key_rows<Real> rows_of_value(kernel<Real> const& run, Real* packed, index_t batch, index_t head,
                                           index_t begin, index_t end) {
  operand const& box = run.call.value;
  if (run.value.first != nullptr) {
    return packed_rows(run, run.value, batch, head, div_pow2(begin, run.verb.keys_per_line()));
  }
  if (packed == nullptr) return {static_cast<Real const*>(box.row(batch, head, begin)), box.strides[2]};
  pack_value_rows(run, box, batch, head, begin, end, packed);
  return {packed, run.value_words()};
}

}  // namespace HEED_ABI
}  // namespace heed::detail
