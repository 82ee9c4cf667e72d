// Which scores a rule leaves visible, read from the masks' public data: the reference never asks the masks the
// questions that a kernel asks them, so that a wrong answer there cannot hide here.
#pragma once

#include <cstddef>
#include <type_traits>

#include "heed/mask/block_sparse.hpp"
#include "heed/mask/causal.hpp"
#include "heed/mask/combine.hpp"
#include "heed/mask/custom.hpp"
#include "heed/mask/dense.hpp"
#include "heed/mask/documents.hpp"
#include "heed/mask/lengths.hpp"
#include "heed/mask/mask.hpp"
#include "heed/mask/prefix.hpp"
#include "heed/mask/window.hpp"
#include "heed/view/options.hpp"

namespace heed::reference {
namespace detail {

template <class Rule>
inline constexpr bool is_joined = false;
template <class First, class Second>
inline constexpr bool is_joined<both<First, Second>> = true;
template <class Rule>
inline constexpr bool is_custom = false;
template <class Functor, class Covers>
inline constexpr bool is_custom<custom_mask<Functor, Covers>> = true;
template <class Rule>
inline constexpr bool is_unknown = true;

/// Positions and bounds may be any number of 64 bits; their sums are not.
__extension__ typedef __int128 wide;

}  // namespace detail

inline namespace HEED_ABI {

/// The rows and keys of one batch item that exist at all, and the position of row 0 on the key axis.
struct limits {
  index_t query_len, key_begin, key_end, offset;
  index_t rows, keys;  // of the buffers
};

/// Cuts `found` down to the lengths that `rule` holds, one pair of numbers after the other.
template <class Rule>
void apply_lengths(Rule const& rule, index_t batch, limits& found) {
  if constexpr (detail::is_joined<Rule>) {
    apply_lengths(rule.first, batch, found);
    apply_lengths(rule.second, batch, found);
  } else if constexpr (std::is_same_v<Rule, lengths>) {
    if (rule.query.size() > 0 && rule.query[batch] < found.query_len) found.query_len = rule.query[batch];
    if (rule.key.size() > 0 && rule.key[batch] < found.key_end) found.key_end = rule.key[batch];
    if (rule.key_start.size() > 0 && rule.key_start[batch] > found.key_begin) found.key_begin = rule.key_start[batch];
  }
}

/// What exists of batch item `batch`. Positions count from the start of the buffers, left padding or not.
template <class Rule>
[[nodiscard]] limits limits_of(Rule const& rule, anchor const& where, index_t batch, index_t rows, index_t keys) {
  limits found{rows, 0, keys, 0, rows, keys};
  apply_lengths(rule, batch, found);
  switch (where.kind()) {
    case anchor::rule::bottom_right: found.offset = found.key_end - found.query_len; break;
    case anchor::rule::top_left: found.offset = 0; break;
    default: found.offset = where.offset(batch, 0, 0); break;  // as the caller gave it
  }
  return found;
}

/// Whether a row and a key have the same document; sizes are those of the buffers.
[[nodiscard]] inline bool share_document(documents const& rule, position const& at, limits const& sizes) {
  const auto batch_of = [&](list<index_t> const& ids, index_t each) {
    return ids.size() == each ? 0 : at.batch * each;
  };
  const index_t key_id = rule.ids[batch_of(rule.ids, sizes.keys) + at.key];
  if (rule.query_ids.given()) return rule.query_ids[batch_of(rule.query_ids, sizes.rows) + at.query] == key_id;
  const detail::wide place = detail::wide{at.query} + at.offset;
  if (place < 0 || place >= sizes.keys) return false;
  return rule.ids[batch_of(rule.ids, sizes.keys) + static_cast<index_t>(place)] == key_id;
}

/// Whether one score is visible as far as `rule` decides it (lengths are decided by `limits`).
template <class Rule>
[[nodiscard]] bool is_visible(Rule const& rule, position const& at, limits const& sizes) {
  if constexpr (detail::is_joined<Rule>) {
    return is_visible(rule.first, at, sizes) && is_visible(rule.second, at, sizes);
  } else if constexpr (std::is_same_v<Rule, no_mask> || std::is_same_v<Rule, lengths> || stage_type<Rule>) {
    return true;  // what a stage hides shows in its terms
  } else if constexpr (std::is_same_v<Rule, causal>) {
    const index_t ahead = at.key - at.query;  // key <= query + offset, without a sum that could overflow
    return ahead <= at.offset;
  } else if constexpr (std::is_same_v<Rule, window>) {
    const detail::wide place = detail::wide{at.query} + at.offset;
    if (rule.left && at.key < place - *rule.left) return false;
    return !rule.right || at.key <= place + *rule.right;
  } else if constexpr (std::is_same_v<Rule, prefix>) {
    return at.key < rule.lengths[at.batch] || at.key <= detail::wide{at.query} + at.offset;
  } else if constexpr (std::is_same_v<Rule, documents>) {
    return share_document(rule, at, sizes);
  } else if constexpr (std::is_same_v<Rule, block_sparse>) {
    const index_t indices[4] = {at.batch, at.head, at.query / rule.block_rows, at.key / rule.block_keys};
    index_t element = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (rule.blocks.extent(axis) != 1) element += indices[axis] * rule.blocks.stride(axis);
    }
    return static_cast<unsigned char const*>(rule.blocks.data())[element] != 0;
  } else if constexpr (detail::is_custom<Rule>) {
    return static_cast<bool>(rule.functor(at));  // what its `covers` says is not asked
  } else if constexpr (std::is_same_v<Rule, keep_mask> || std::is_same_v<Rule, drop_mask>) {
    const index_t indices[4] = {at.batch, at.head, at.query, at.key};
    index_t element = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (rule.extent(axis) != 1) element += indices[axis] * rule.stride(axis);
    }
    const bool is_set = static_cast<unsigned char const*>(rule.data())[element] != 0;
    return std::is_same_v<Rule, keep_mask> ? is_set : !is_set;
  } else {
    static_assert(!detail::is_unknown<Rule>, "heed::reference: this rule is not one that the reference knows");
    return false;
  }
}

}  // namespace HEED_ABI
}  // namespace heed::reference
