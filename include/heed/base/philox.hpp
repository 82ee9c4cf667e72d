// Philox4x32-10: random numbers that are a function of a counter and a key, and of nothing else.
#pragma once

#include <cstdint>

#include "heed/base/config.hpp"

namespace heed::detail {

/// A counter, or what it becomes: word 0 first.
struct philox_words {
  std::uint32_t at[4];
};

inline constexpr std::uint32_t philox_factor[2] = {0xD2511F53u, 0xCD9E8D57u};
/// What the two words of the key grow by from round to round: the golden ratio, and sqrt(3) - 1.
inline constexpr std::uint32_t philox_step[2] = {0x9E3779B9u, 0xBB67AE85u};
inline constexpr int philox_rounds = 10;

/// Four random words, uniform over all of 2^32.
/// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
[[nodiscard]] HEED_FN constexpr philox_words philox(philox_words counter, std::uint32_t key_low,
                                                    std::uint32_t key_high) noexcept {
  for (int round = 0; round < philox_rounds; ++round) {
    const std::uint64_t first = std::uint64_t{philox_factor[0]} * counter.at[0];
    const std::uint64_t second = std::uint64_t{philox_factor[1]} * counter.at[2];
    counter = {{static_cast<std::uint32_t>(second >> 32) ^ counter.at[1] ^ key_low, static_cast<std::uint32_t>(second),
                static_cast<std::uint32_t>(first >> 32) ^ counter.at[3] ^ key_high, static_cast<std::uint32_t>(first)}};
    key_low += philox_step[0];
    key_high += philox_step[1];
  }
  return counter;
}

}  // namespace heed::detail
