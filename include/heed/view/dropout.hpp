// dropout: which probabilities a call drops, as a function of the place of the score and nothing else.
#pragma once

#include "heed/base/index.hpp"
#include "heed/base/philox.hpp"

namespace heed {

/// Probabilities are set to 0 with probability p after the softmax; those that survive are multiplied with 1 / (1 - p),
/// so that the expectation of `out` is that without dropout (rows of dropped weights do not sum to 1). lse, weights and
/// scores are those before. p = 0: off; p = 1: out is 0.
///
/// The score (batch b, query head h, query row i, key j) survives iff word j mod 4 of Philox4x32-10 is at least
/// p * 2^32, rounded to the nearest integer (halves up). The key of the generator is (low, high 32 bits of seed); its
/// counter is, each modulo 2^32,
///   word 0: floor(j / 4)    word 1: i    word 2: the low 32 bits of offset
///   word 3: 65536 b + h + the high 32 bits of offset.
/// b, h, i, j are plain numbers of the buffers, as in heed::position. So the same call drops the same scores for every
/// number of threads, instruction set, layout and element type. Two scores of a call share a word only where
/// 65536 b + h is the same, which takes 65537 heads or 65537 batch items, or where rows lie 2^32 apart, or keys 2^34.
/// Another offset below 2^32 gives other words throughout: add 1 for each layer or step of one seed.
/// Source: Srivastava et al. (2014); Philox: Salmon et al. (2011).
struct dropout {
  double p = 0;              ///< probability of dropping, from 0 to 1
  std::uint64_t seed = 0;    ///< the key of the generator
  std::uint64_t offset = 0;  ///< goes into its counter
};

namespace detail {

[[nodiscard]] HEED_FN constexpr std::uint32_t low_word(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word & 0xffffffffu);
}
[[nodiscard]] HEED_FN constexpr std::uint32_t high_word(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}

/// Words below it are dropped: p * 2^32 rounded, the same in every rounding mode. 2^32: all of them.
[[nodiscard]] HEED_FN constexpr std::uint64_t dropout_threshold(double p) noexcept {
  const double exact = p * 0x1p32;
  const std::uint64_t whole = static_cast<std::uint64_t>(exact);
  return whole + (exact - static_cast<double>(whole) >= 0.5);
}

/// What the score at key 0 of row 0 has for a counter.
[[nodiscard]] HEED_FN constexpr philox_words dropout_counter(dropout const& drop, index_t batch,
                                                             index_t head) noexcept {
  const std::uint64_t place = (static_cast<std::uint64_t>(batch) << 16) + static_cast<std::uint64_t>(head);
  return {{0, 0, low_word(drop.offset), low_word(place + high_word(drop.offset))}};
}

}  // namespace detail

/// Whether the score (batch, query head, query row, key) survives. drop.p is from 0 to 1, the indices are 0 or more.
[[nodiscard]] HEED_FN constexpr bool dropout_keeps(dropout const& drop, index_t batch, index_t head, index_t query,
                                                   index_t key) noexcept {
  detail::philox_words counter = detail::dropout_counter(drop, batch, head);
  counter.at[0] = detail::low_word(static_cast<std::uint64_t>(key) >> 2);
  counter.at[1] = detail::low_word(static_cast<std::uint64_t>(query));
  return detail::philox(counter, detail::low_word(drop.seed), detail::high_word(drop.seed)).at[key & 3] >=
         detail::dropout_threshold(drop.p);
}

}  // namespace heed
