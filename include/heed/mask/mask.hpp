// What a mask is: a type that answers for blocks first and for elements second.
#pragma once

#include <concepts>

#include "heed/view/sequence.hpp"

namespace heed {

/// One score: plain row numbers of the buffers, and `off` of the sequence (row i stands at key position i + offset).
struct position {
  index_t batch, head, query, key, offset;
};

/// A rectangle of scores: rows [query_begin, query_end) and keys [key_begin, key_end) of one head.
struct block {
  index_t batch, head, query_begin, query_end, key_begin, key_end, offset;
};

/// How much of a block a mask leaves visible. `partial` is always a right answer; the others must be exact.
enum class cover : unsigned char { none, partial, full };

/// Keys [begin, end).
struct key_range {
  index_t begin, end;
};

/// A mask says what of a block is visible, and whether one score is.
template <class Mask>
concept mask_type = requires(Mask const& mask, block const& area, position const& at) {
  { mask.covers(area) } -> std::same_as<cover>;
  { mask.allows(at) } -> std::same_as<bool>;
};

/// A stage changes scores, in the order written, before any mask applies; a sink is one, too.
template <class Stage>
concept stage_type = Stage::is_stage;

/// A mask that means nothing without the sizes of the call; what answers for it is made when these are known.
template <class Mask>
concept unresolved_mask = Mask::needs_call;

/// What may stand where a call takes a rule.
template <class Rule>
concept rule_type = mask_type<Rule> || stage_type<Rule> || unresolved_mask<Rule>;

/// Nothing is hidden.
struct no_mask {
  [[nodiscard]] HEED_FN constexpr cover covers(block const&) const noexcept { return cover::full; }
  [[nodiscard]] HEED_FN constexpr bool allows(position const&) const noexcept { return true; }
};

namespace detail {

// Stages leave blocks as they are.
template <class Rule>
[[nodiscard]] HEED_FN constexpr cover covers(Rule const& rule, block const& area) {
  if constexpr (requires { rule.covers(area); }) {
    return rule.covers(area);
  } else {
    return cover::full;
  }
}

// A rule may know more: keys outside of which a block is certainly hidden, shorter sequences, and rows at which
// a tile had better begin.
template <class Mask>
[[nodiscard]] HEED_FN constexpr key_range visible_keys(Mask const& mask, block const& area) {
  if constexpr (requires { mask.visible_keys(area); }) {
    return mask.visible_keys(area);
  } else {
    return {area.key_begin, area.key_end};
  }
}

template <class Mask>
HEED_FN constexpr void narrow(Mask const& mask, index_t batch, sequence& seq) {
  if constexpr (requires { mask.narrow(batch, seq); }) mask.narrow(batch, seq);
}

template <class Mask>
inline constexpr bool has_borders = requires(Mask const& mask, block const& area) {
  mask.next_border(area);
};
/// The first row behind `area.query_begin` that is treated alike no more; area.query_end where all are.
template <class Mask>
[[nodiscard]] HEED_FN constexpr index_t next_border(Mask const& mask, block const& area) {
  if constexpr (requires { mask.next_border(area); }) {
    return mask.next_border(area);
  } else {
    return area.query_end;
  }
}

/// What a row begins with, as if it had seen a key that has no value: the sink's logit.
struct row_start {
  double max = -__builtin_inf();
  double sum = 0;
};

template <class Rule>
HEED_FN constexpr void begin_row(Rule const& rule, index_t head, row_start& start) {
  if constexpr (requires { rule.begin_row(head, start); }) rule.begin_row(head, start);
}

}  // namespace detail
}  // namespace heed
