// Maps of blocks for block_sparse: sliding, strided, BigBird.
#pragma once

#include <cstdint>

#include "heed/base/error.hpp"
#include "heed/view/tensor.hpp"

namespace heed {

/// Of sliding_blocks: blocks before and behind the row block's own one.
struct sliding_pattern {
  index_t left = 1;
  index_t right = 1;
};

/// Of strided_blocks: blocks around the row block's own one, and the step from one summary block to the next.
struct strided_pattern {
  index_t local = 3;
  index_t stride = 4;
};

/// Of bigbird_blocks: blocks around the row block's own one, first blocks that see and are seen by all, others drawn at
/// random for each row block.
struct bigbird_pattern {
  index_t local = 3;
  index_t global = 2;
  index_t random = 3;
  std::uint64_t seed = 0;
};

namespace detail {
inline namespace HEED_ABI {

/// splitmix64 (Steele, Lea, Flood, 2014): the same numbers on every machine.
class drawer {
 public:
  explicit drawer(std::uint64_t seed) noexcept : state_(seed) {}
  /// In [0, count). Its bias is below 2^-32 for counts that blocks have.
  [[nodiscard]] index_t below(index_t count) noexcept {
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return static_cast<index_t>((mixed ^ (mixed >> 31)) % static_cast<std::uint64_t>(count));
  }

 private:
  std::uint64_t state_;
};

inline void check_pattern(char const* function, char const* name, index_t value, index_t least) {
  if (value >= least) return;
  char text[200];
  std::snprintf(text, sizeof text, "heed::%s: %s is %lld; it must be at least %lld", function, name,
                static_cast<long long>(value), static_cast<long long>(least));
  raise(errc::bad_pattern, text);
}

/// Sets the blocks [center - left, center + right] that there are, where the center of a row block is the key block at
/// its place: the last row block stands at the last key block.
inline void set_around(tensor<bool, 2>& blocks, index_t left, index_t right) {
  const index_t rows = blocks.extent(0), keys = blocks.extent(1);
  for (index_t row = 0; row < rows; ++row) {
    const index_t center = row + keys - rows;
    const index_t last = lesser(clamped_add(center, right), keys - 1);
    for (index_t key = greater(saturating_sub(center, left), 0); key <= last; ++key) blocks(row, key) = true;
  }
}

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// A band: row block r sees key blocks [c - left, c + right], with c = r + key_blocks - row_blocks: as under the anchor
/// bottom_right, the last row block stands at the last key block.
///
/// Returns bools [row_blocks, key_blocks] for block_sparse, true = attend. Throws heed::error for a negative number.
/// Source: Child et al., "Generating Long Sequences with Sparse Transformers" (2019).
[[nodiscard]] inline tensor<bool, 2> sliding_blocks(index_t row_blocks, index_t key_blocks,
                                                    sliding_pattern pattern = {}) {
  detail::check_pattern("sliding_blocks", "row_blocks", row_blocks, 0);
  detail::check_pattern("sliding_blocks", "key_blocks", key_blocks, 0);
  detail::check_pattern("sliding_blocks", "left", pattern.left, 0);
  detail::check_pattern("sliding_blocks", "right", pattern.right, 0);
  tensor<bool, 2> blocks({row_blocks, key_blocks});
  detail::set_around(blocks, pattern.left, pattern.right);
  return blocks;
}

/// A band of `local` blocks around the own one (an even number has one more before it), and every key block whose
/// number is stride - 1 modulo stride: the summaries that rows of other places read.
///
/// Returns bools [row_blocks, key_blocks] for block_sparse; join `causal{}` for a causal pattern. Throws heed::error
/// for a negative number, or a stride of 0. Source: Child et al. (2019), the "fixed" pattern.
[[nodiscard]] inline tensor<bool, 2> strided_blocks(index_t row_blocks, index_t key_blocks,
                                                    strided_pattern pattern = {}) {
  detail::check_pattern("strided_blocks", "row_blocks", row_blocks, 0);
  detail::check_pattern("strided_blocks", "key_blocks", key_blocks, 0);
  detail::check_pattern("strided_blocks", "local", pattern.local, 0);
  detail::check_pattern("strided_blocks", "stride", pattern.stride, 1);
  tensor<bool, 2> blocks({row_blocks, key_blocks});
  if (pattern.local > 0) detail::set_around(blocks, pattern.local / 2, (pattern.local - 1) / 2);
  for (index_t row = 0; row < row_blocks; ++row) {
    for (index_t key = pattern.stride - 1; key < key_blocks; key += pattern.stride) blocks(row, key) = true;
  }
  return blocks;
}

/// BigBird: a band of `local` blocks around the own one (an even number has one more before it); the first `global` key
/// blocks for every row, and all key blocks for the first `global` row blocks; and `random` more key blocks for each
/// other row block, drawn without repetition from those that it does not see yet (all of them where there are fewer).
///
/// Returns bools [row_blocks, key_blocks] for block_sparse, true = attend. The same numbers give the same map on every
/// machine (splitmix64 from `seed`). Throws heed::error for a negative number.
/// Source: Zaheer et al., "Big Bird: Transformers for Longer Sequences" (2020), the ITC construction.
[[nodiscard]] inline tensor<bool, 2> bigbird_blocks(index_t row_blocks, index_t key_blocks,
                                                    bigbird_pattern pattern = {}) {
  detail::check_pattern("bigbird_blocks", "row_blocks", row_blocks, 0);
  detail::check_pattern("bigbird_blocks", "key_blocks", key_blocks, 0);
  detail::check_pattern("bigbird_blocks", "local", pattern.local, 0);
  detail::check_pattern("bigbird_blocks", "global", pattern.global, 0);
  detail::check_pattern("bigbird_blocks", "random", pattern.random, 0);
  tensor<bool, 2> blocks({row_blocks, key_blocks});
  if (pattern.local > 0) detail::set_around(blocks, pattern.local / 2, (pattern.local - 1) / 2);
  detail::drawer draw(pattern.seed);
  for (index_t row = 0; row < row_blocks; ++row) {
    const index_t seen = row < pattern.global ? key_blocks : detail::lesser(pattern.global, key_blocks);
    for (index_t key = 0; key < seen; ++key) blocks(row, key) = true;
    index_t hidden = 0;
    for (index_t key = 0; key < key_blocks; ++key) hidden += blocks(row, key) ? 0 : 1;
    // One pass that takes each hidden block with the chance that leaves every choice equally likely.
    for (index_t key = 0, wanted = pattern.random; key < key_blocks && wanted > 0; ++key) {
      if (blocks(row, key)) continue;
      if (draw.below(hidden--) >= wanted) continue;
      blocks(row, key) = true;
      --wanted;
    }
  }
  return blocks;
}

}  // namespace HEED_ABI
}  // namespace heed
