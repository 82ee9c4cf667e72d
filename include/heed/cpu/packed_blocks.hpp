// A map of blocks as words of 32 rows for each block of keys, made once per call: what the kernels read.
#pragma once

#include "heed/cpu/packed_mask.hpp"
#include "heed/mask/block_sparse.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct packed_blocks {
  packed_mask bits;             // a column for each block of keys
  std::uint32_t const* column;  // of each key
  index_t block_rows;

  template <class Real>
  [[nodiscard]] HEED_FN packed_mask::lanes on(strip<Real> rows) const noexcept {
    rows.key = column[rows.key];
    return bits.on(rows);
  }
  [[nodiscard]] HEED_FN bool allows(position at) const noexcept {
    at.key = column[at.key];
    return bits.allows(at);
  }
  [[nodiscard]] HEED_FN cover covers(block area) const noexcept {
    area.key_begin = column[area.key_begin];
    area.key_end = index_t{column[area.key_end - 1]} + 1;
    return bits.covers(area);
  }
  [[nodiscard]] HEED_FN index_t next_border(block const& area) const noexcept {
    return bits.same_rows ? area.query_end : lesser((area.query_begin / block_rows + 1) * block_rows, area.query_end);
  }
};

/// Sizes of the words of a map: [batch, head, groups, key blocks], with one group more than there are, and the columns.
struct block_words {
  index_t batches, heads, groups, columns, keys;

  block_words(block_sparse const& mask, problem const& call) noexcept
      : batches(mask.blocks.extent(0)),
        heads(mask.blocks.extent(1)),
        groups(ceil_div(call.seq_len_q, packed_mask::rows_per_word)),
        columns(mask.blocks.extent(3)),
        keys(call.seq_len_kv) {}
  [[nodiscard]] index_t per_head() const noexcept { return (groups + 1) * columns; }
  [[nodiscard]] index_t count() const noexcept { return batches * heads * per_head() + keys; }
};

/// Packs a map into `to`, of block_words::count words.
[[nodiscard]] inline packed_blocks pack_blocks(block_sparse const& mask, problem const& call,
                                               std::uint32_t* to) noexcept {
  const block_words size(mask, call);
  const bool same_rows = mask.blocks.extent(2) == 1;
  const index_t words = size.batches * size.heads * size.per_head();
  for (index_t item = 0; item < words; ++item) {
    const index_t place = item / size.columns, key_block = item % size.columns;
    const index_t first = place % (size.groups + 1) * packed_mask::rows_per_word;
    const index_t head = place / (size.groups + 1) % size.heads, batch = place / (size.groups + 1) / size.heads;
    const index_t end = lesser(first + packed_mask::rows_per_word, call.seq_len_q);
    std::uint32_t word = 0;
    for (index_t row = first; row < end;) {
      const index_t row_block = same_rows ? 0 : row / mask.block_rows;
      const index_t next = same_rows ? end : lesser(saturating_mul(row_block + 1, mask.block_rows), end);
      const std::uint32_t below = row == first ? 0u : (1u << (row - first)) - 1;
      const std::uint32_t up_to = next - first == 32 ? ~0u : (1u << (next - first)) - 1;
      if (mask.blocks.at(batch, head, row_block, key_block)) word |= up_to & ~below;
      row = next;
    }
    to[item] = same_rows && word != 0 ? ~0u : word;
  }
  for (index_t key = 0; key < size.keys; ++key) {
    to[words + key] = static_cast<std::uint32_t>(size.columns == 1 ? 0 : key / mask.block_keys);
  }
  packed_blocks packed{{}, to + words, mask.block_rows};
  packed.bits.words = to;
  packed.bits.same_rows = same_rows;
  packed.bits.strides[0] = size.batches == 1 ? 0 : size.heads * size.per_head();
  packed.bits.strides[1] = size.heads == 1 ? 0 : size.per_head();
  packed.bits.strides[2] = size.columns;
  packed.bits.strides[3] = size.columns == 1 ? 0 : 1;
  return packed;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
