// lengths: padded batches. What lies outside is never read.
#pragma once

#include "heed/base/list.hpp"
#include "heed/mask/mask.hpp"

namespace heed {

/// Visible keys are [key_start, key), both counted from the start of the buffer; rows past `query` are empty (out = 0,
/// lse = -inf). Each list has one index_t per batch item and must outlive the call; one that is left out means the
/// whole buffer. Two `lengths` intersect. NaN outside the lengths changes nothing. off is worked out from the true
/// lengths: with `causal` in self-attention give `query` as well as `key`, or anchor at `top_left`; a short `key`
/// against a whole query buffer makes off negative, and its first rows empty.
struct lengths {
  list<index_t> query{};
  list<index_t> key{};
  list<index_t> key_start{};

  // Shorter sequences say it all: within them every score is visible.
  [[nodiscard]] HEED_FN constexpr cover covers(block const&) const noexcept { return cover::full; }
  [[nodiscard]] HEED_FN constexpr bool allows(position const&) const noexcept { return true; }
  HEED_FN constexpr void narrow(index_t batch, sequence& seq) const noexcept {
    if (query.given()) seq.query_len = detail::lesser(seq.query_len, query[batch]);
    if (key.given()) seq.key_end = detail::lesser(seq.key_end, key[batch]);
    if (key_start.given()) seq.key_begin = detail::greater(seq.key_begin, key_start[batch]);
  }
};

}  // namespace heed
