// A few query rows, and what the walk over their keys knows of them.
#pragma once

#include "heed/base/config.hpp"
#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

class seen_blocks;

/// What is known of some query rows after the keys seen so far.
template <class Real>
struct row_state {
  Real* row_max;  // [rows]
  Real* row_sum;  // [rows], for lse and weights
  Real* out;      // [rows, padded head_dim_v and a vector of the sums it is to be divided by]
};

/// Query rows [row_begin, row_begin + rows_per_head) of heads [head, head + heads): head by head.
template <class Real>
struct row_set {
  index_t head;
  index_t heads;
  index_t row_begin;
  index_t rows_per_head;
  Real const* query;  // [rows, padded head_dim_qk], scaled
  Real* scores;       // [rows, score_stride]
  Real* copy;         // [rows, score_stride], the scores that softmax has overwritten, for a second look
  seen_blocks const* blocks;

  [[nodiscard]] index_t rows() const noexcept { return heads * rows_per_head; }
};

/// Rows of a run of heads that see something of a block, and keys [key_begin, key_end) that one of them may see.
struct row_run {
  index_t row;
  index_t rows;
  index_t key_begin;
  index_t key_end;
  index_t block_begin;  // the key of column 0 of the scores
};

/// What a walk over the keys does with the probabilities of a block.
enum class row_pass : unsigned char {
  attend,          // out += probabilities times values
  attend_visible,  // the same, leaving out values that a row may not see
  average,         // the same with final probabilities, halved
  weigh            // writes final probabilities
};

}  // namespace HEED_ABI
}  // namespace heed::detail
