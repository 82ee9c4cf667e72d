// A dense mask with the bools of 32 rows at a key packed into one word, once per call: what the kernels read.
#pragma once

#include "heed/cpu/partition.hpp"
#include "heed/mask/dense.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Words [batch, head, groups of 32 rows, keys]; an axis that is repeated has stride 0. Set bits are visible rows.
struct packed_mask {
  static constexpr index_t rows_per_word = 32;

  std::uint32_t const* words = nullptr;
  index_t strides[4] = {0, 0, 0, 0};
  bool same_rows = false;  // one row stands for all

  struct lanes {
    std::uint32_t bits;
    [[nodiscard]] HEED_FN constexpr bool allows(int lane) const noexcept { return (bits & (1u << lane)) != 0; }
  };

  [[nodiscard]] HEED_FN std::uint32_t const* group(index_t batch, index_t head, index_t row) const noexcept {
    return words + batch * strides[0] + head * strides[1] + (same_rows ? 0 : row / rows_per_word * strides[2]);
  }
  /// Row `row` and those behind it, from the lowest bit.
  [[nodiscard]] HEED_FN std::uint32_t bits(std::uint32_t const* group, index_t row, index_t key) const noexcept {
    std::uint32_t const* const word = group + key * strides[3];
    if (same_rows || row % rows_per_word == 0) return *word;
    return static_cast<std::uint32_t>((std::uint64_t{word[strides[2]]} << 32 | *word) >> (row % rows_per_word));
  }

  template <class Real>
  [[nodiscard]] HEED_FN lanes on(strip<Real> const& rows) const noexcept {
    return {bits(group(rows.batch, rows.head, rows.query), rows.query, rows.key)};
  }
  [[nodiscard]] HEED_FN bool allows(position const& at) const noexcept {
    return (bits(group(at.batch, at.head, at.query), at.query, at.key) & 1u) != 0;
  }

  /// Exact.
  [[nodiscard]] HEED_FN cover covers(block const& area) const noexcept {
    bool any_set = false, any_clear = false;
    const index_t keys = strides[3] == 0 ? 1 : area.key_end - area.key_begin;
    const index_t row_end = same_rows ? area.query_begin + 1 : area.query_end;
    for (index_t row = area.query_begin; row < row_end;) {
      const index_t first = same_rows ? 0 : row % rows_per_word;
      const index_t end = lesser(rows_per_word, first + row_end - row);
      const std::uint32_t those = (end == rows_per_word ? ~0u : (1u << end) - 1) & ~((1u << first) - 1);
      std::uint32_t const* const word = group(area.batch, area.head, row) + area.key_begin * strides[3];
      for (index_t begin = 0; begin < keys; begin += keys_at_a_time) {
        std::uint32_t all = ~0u, any = 0;
        for (index_t key = begin; key < lesser(begin + keys_at_a_time, keys); ++key) {
          all &= word[key];
          any |= word[key];
        }
        any_set = any_set || (any & those) != 0;
        any_clear = any_clear || (all & those) != those;
        if (any_set && any_clear) return cover::partial;
      }
      row += end - first;
    }
    return any_set ? cover::full : cover::none;
  }

 private:
  static constexpr index_t keys_at_a_time = 32;
};

/// Bools of `rows` rows at one key after the other: to words, 32 rows each.
inline void pack_bits(unsigned char const* from, index_t row_stride, index_t key_stride, index_t rows, index_t keys,
                      bool keep, std::uint32_t* to) noexcept {
  const std::uint32_t flipped = keep ? 0u : rows >= 32 ? ~0u : (1u << rows) - 1;
  index_t key = 0;
  if (key_stride == 1) {
    constexpr index_t line = 64;
    for (; key + line <= keys; key += line) {
      std::uint64_t eights[4][line / 8] = {};  // of each key a byte, of eight rows
      for (index_t row = 0; row < rows; ++row) {
        unsigned char const* const bytes = from + row * row_stride + key;
        __builtin_prefetch(bytes + 4 * line);
        for (index_t part = 0; part < line / 8; ++part) {
          std::uint64_t bools = 0;
          __builtin_memcpy(&bools, bytes + 8 * part, 8);
          // Any byte but 0 is true.
          bools = (((bools & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | bools) >> 7 & 0x0101010101010101u;
          eights[row / 8][part] |= bools << (row % 8);
        }
      }
      for (index_t k = 0; k < line; ++k) {
        std::uint32_t word = 0;
        for (int byte = 0; byte < 4; ++byte) {
          word |= static_cast<std::uint32_t>(eights[byte][k / 8] >> (8 * (k % 8)) & 0xff) << (8 * byte);
        }
        to[key + k] = word ^ flipped;
      }
    }
  }
  for (; key < keys; ++key) {
    std::uint32_t word = 0;
    for (index_t row = 0; row < rows; ++row) {
      word |= static_cast<std::uint32_t>(from[row * row_stride + key * key_stride] != 0) << row;
    }
    to[key] = word ^ flipped;
  }
}

/// Sizes of the words of a mask: [batch, head, groups, keys], and one group more than there are, for the strip that
/// begins in the last one.
struct mask_words {
  index_t batches, heads, groups, keys;

  template <bool Keep>
  explicit mask_words(dense_mask<Keep> const& mask) noexcept
      : batches(mask.extent(0)),
        heads(mask.extent(1)),
        groups(ceil_div(mask.extent(2), packed_mask::rows_per_word)),
        keys(mask.extent(3)) {}
  [[nodiscard]] index_t per_head() const noexcept { return (groups + 1) * keys; }
  [[nodiscard]] index_t count() const noexcept { return batches * heads * per_head(); }
};

/// Packs a mask into `to`, of mask_words::count words.
template <bool Keep>
[[nodiscard]] packed_mask pack_mask(dense_mask<Keep> const& mask, problem const& call, std::uint32_t* to) {
  const mask_words size(mask);
  const auto pack_group = [&](index_t item) {
    const index_t group = item % size.groups, head = item / size.groups % size.heads;
    const index_t batch = item / size.groups / size.heads, row = group * packed_mask::rows_per_word;
    const bool same_rows = mask.stride(2) == 0;
    std::uint32_t* const words = to + (batch * size.heads + head) * size.per_head() + group * size.keys;
    pack_bits(static_cast<unsigned char const*>(mask.data()) + batch * mask.stride(0) + head * mask.stride(1) +
                  row * mask.stride(2),
              mask.stride(2), mask.stride(3), same_rows ? 1 : lesser(packed_mask::rows_per_word, mask.extent(2) - row),
              size.keys, Keep, words);
    // A row that stands for all sets all bits or none.
    for (index_t key = 0; same_rows && key < size.keys; ++key) words[key] = words[key] != 0 ? ~0u : 0u;
    for (index_t key = 0; group + 1 == size.groups && key < size.keys; ++key) words[size.keys + key] = 0;
  };
  const index_t groups = size.keys == 0 ? 0 : size.batches * size.heads * size.groups;
  const double repaid = static_cast<double>(size.count()) * 32 / flops_per_thread;
  const int wanted = call.options.threads == 1 || repaid < 2 ? 1
                     : call.options.threads == 0             ? workers_of(call, 0).available()
                                                             : call.options.threads;
  parallel_for(groups, workers_of(call, wanted), pack_group);
  packed_mask packed;
  packed.words = to;
  packed.same_rows = mask.stride(2) == 0;
  packed.strides[0] = size.batches == 1 ? 0 : size.heads * size.per_head();
  packed.strides[1] = size.heads == 1 ? 0 : size.per_head();
  packed.strides[2] = size.keys;
  packed.strides[3] = size.keys == 1 ? 0 : 1;
  return packed;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
