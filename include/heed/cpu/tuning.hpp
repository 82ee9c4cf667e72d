// The numbers that were chosen by measurement, apart from the logic that uses them.
#pragma once

#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

inline constexpr index_t largest_block_keys = 128;

/// Keys in one block, counted from key 0. Results depend on it in their last bits, so it may depend on the type and the
/// head dimensions alone. A block of K and one of V stay in the second-level cache.
[[nodiscard]] constexpr index_t keys_per_block(index_t head_dim_qk, index_t head_dim_v,
                                               index_t element_bytes) noexcept {
  const index_t row = greater(head_dim_qk, head_dim_v) * element_bytes;
  return row <= 1024 ? largest_block_keys : row <= 2048 ? 64 : row <= 8192 ? 32 : 16;
}

/// Keys for which a rule that hides a part of a block is asked at a time.
inline constexpr index_t keys_per_question = 16;

/// Query tiles end where documents do, if these have at least so many vectors of rows.
inline constexpr index_t vectors_per_segment = 2;

/// Query rows of one piece of work: how often a block of K and V is used once it is in the cache.
inline constexpr index_t rows_per_piece = 384;

/// Scratch of one thread for the query tiles of a piece of work.
inline constexpr index_t tile_scratch_bytes = 640 * 1024;

/// Rows of weights of one piece of work: they are finished while they are in the second-level cache.
inline constexpr index_t near_weights_bytes = 1024 * 1024;

/// Strided K and V are copied to contiguous rows once a block serves this many query rows.
inline constexpr index_t rows_that_repay_packing = 96;

/// Rows of K and V, and of their gradients, that a thread works on at a time in a backward pass.
inline constexpr index_t chunk_bytes = 512 * 1024;

/// K and V that are packed once for all pieces of work, at a time.
inline constexpr index_t packed_once_bytes = 16 * 1024 * 1024;

/// Keys that are packed in one go.
inline constexpr index_t keys_per_packing = 512;

/// Rows of Q, K, V or out of the next piece of work that are worth asking for while this one computes.
inline constexpr index_t read_ahead_bytes = 128 * 1024;

/// Floating-point operations that repay waking one more thread: some 50 us.
inline constexpr double flops_per_thread = 4e6;

/// Few query rows of a head are held one by one, with head_dim in the lanes, rather than side by side in them, where
/// most lanes would stay empty: up to four, or to half a vector. The number of keys may not decide, for a
/// buffer may be longer than what is in it.
[[nodiscard]] constexpr bool is_decode(index_t seq_len_q, index_t lanes) noexcept {
  return seq_len_q <= greater(4, lanes / 2);
}

/// Query rows that share keys and values as they pass; the heads of larger groups take turns.
inline constexpr index_t rows_together = 64;

/// Blocks of keys that few query rows look at before they look at the values of these: stretches of memory as long as
/// scratch allows for the scores of so many rows, for each change from K to V and back costs a microsecond.
[[nodiscard]] constexpr index_t blocks_together(index_t rows, index_t block_keys, index_t element_bytes) noexcept {
  constexpr index_t score_bytes = 128 * 1024, most = 32;
  return lesser(most, greater(32 / element_bytes, score_bytes / (rows * block_keys * element_bytes)));
}

/// Blocks of keys in one split, the unit of work on the keys of few query rows. Results depend on it in their last
/// bits.
inline constexpr index_t blocks_per_split = 8;

/// Partial results of splits that wait for their merge, in bytes.
inline constexpr index_t partial_bytes = 1024 * 1024;

/// Floating-point operations in the time that one byte takes on its way from memory.
inline constexpr double flops_per_byte = 3;

}  // namespace HEED_ABI
}  // namespace heed::detail
