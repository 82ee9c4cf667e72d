// drop: dropout over the probabilities of one block, four keys at a time.
#pragma once

#include <cstddef>

#include "heed/cpu/simd/vector.hpp"
#include "heed/mask/mask.hpp"
#include "heed/view/dropout.hpp"

namespace heed::detail {

/// The rows of a vector as Philox takes them: a row's words in the lower halves of lanes of 64 bits, where one
/// instruction makes both halves of a product. What the upper halves hold does not matter until the end. A vector of
/// floats needs two of them, one for its even lanes and one for its odd ones.
template <class Simd>
struct philox_lanes {
  typedef std::uint64_t wide __attribute__((vector_size(Simd::bytes), may_alias));
  typedef std::int64_t wide_integers __attribute__((vector_size(Simd::bytes), may_alias));
  typedef std::uint32_t words __attribute__((vector_size(Simd::bytes), may_alias));
  static constexpr int parts = 8 / static_cast<int>(sizeof(typename Simd::scalar));
  static constexpr std::uint64_t lower_half = 0xffffffffu;

  /// to = factor * the lower half of each lane. GCC has no expression for it (64-bit products take three times as
  /// long), clang sees it through the mask.
  HEED_VERB static void multiply(wide& to, std::uint32_t factor, wide const& by) noexcept {
    const wide factors = wide{} + std::uint64_t{factor};
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Simd::bytes == 64) {
      asm("vpmuludq %2, %1, %0" : "=v"(to) : "v"(by), "v"(factors));
    } else if constexpr (Simd::bytes == 32) {
      asm("vpmuludq %2, %1, %0" : "=x"(to) : "x"(by), "x"(factors));
    } else {
      typedef int halves __attribute__((vector_size(16), may_alias));
      typedef long long products __attribute__((vector_size(16), may_alias));
      const products product =
          __builtin_ia32_pmuludq128(reinterpret_cast<halves>(by), reinterpret_cast<halves>(factors));
      to = reinterpret_cast<wide>(product);
    }
#else
    to = (by & lower_half) * factors;
#endif
  }

  /// The rows from `first` on, in the lower halves.
  HEED_VERB static void rows(wide (&to)[std::size_t{parts}], std::uint64_t first) noexcept {
    for (int part = 0; part < parts; ++part) {
      for (int lane = 0; lane < Simd::lanes / parts; ++lane) {
        to[part][lane] = first + static_cast<std::uint64_t>(lane * parts + part);
      }
    }
  }

  /// Which lanes of the vector hold a word of `threshold` or more: all bits of them are set.
  HEED_VERB static void at_least(typename Simd::integers& keep, wide const (&word)[std::size_t{parts}],
                                 std::uint32_t threshold) noexcept {
    if constexpr (parts == 1) {
      const wide_integers least = wide_integers{} + std::int64_t{threshold};
      const wide whole = word[0] & lower_half;
      keep = reinterpret_cast<wide_integers>(whole) >= least;
    } else {
      const wide both = (word[0] & lower_half) | word[1] << 32;
      keep = reinterpret_cast<words>(both) >= words{} + threshold;
    }
  }
};

/// The counters of one vector of rows, on their way through the rounds, for one group of four keys after the other.
template <class Simd>
class philox_rows {
  using lanes = philox_lanes<Simd>;
  using wide = typename lanes::wide;
  static constexpr std::size_t parts{lanes::parts};

 public:
  /// `counter` is that of key 0 and row 0; `row` the first of the vector's.
  HEED_VERB philox_rows(philox_words const& counter, std::uint64_t seed, std::uint64_t row) noexcept
      : key_{low_word(seed), high_word(seed)}, last_(counter.at[3]) {
    // The rows are all that differs from lane to lane: what the first two rounds make of them is the same for all keys.
    const std::uint64_t product = std::uint64_t{philox_factor[1]} * counter.at[2];
    middle_ = low_word(product);
    lanes::rows(rows_, row);
    HEED_UNROLL
    for (std::size_t part = 0; part < parts; ++part) {
      const wide first = rows_[part] ^ std::uint64_t{high_word(product) ^ key_[0]};
      lanes::multiply(rows_[part], philox_factor[0], first);
    }
  }

  /// Words of the keys [4 group, 4 group + 4) of each row.
  HEED_VERB void at(std::uint32_t group, wide (&word)[4][parts]) const noexcept {
    // As far as all lanes are the same, one is enough: rounds one, two and half of the third.
    std::uint32_t low = key_[0] + philox_step[0], high = key_[1] + philox_step[1];
    const std::uint64_t one = std::uint64_t{philox_factor[0]} * group;
    const std::uint64_t two = std::uint64_t{philox_factor[1]} * (high_word(one) ^ last_ ^ key_[1]);
    const std::uint64_t three = std::uint64_t{philox_factor[0]} * (high_word(two) ^ middle_ ^ low);
    const std::uint64_t second = low_word(one) ^ high;
    low += philox_step[0];
    high += philox_step[1];
    HEED_UNROLL
    for (std::size_t part = 0; part < parts; ++part) {
      const wide before = (rows_[part] >> 32) ^ second;
      lanes::multiply(word[1][part], philox_factor[1], before);
      word[0][part] = (word[1][part] >> 32) ^ std::uint64_t{low_word(two) ^ low};
      word[2][part] = rows_[part] ^ std::uint64_t{high_word(three) ^ high};
      word[3][part] = wide{} + std::uint64_t{low_word(three)};
    }
    HEED_UNROLL
    for (int round = 3; round < philox_rounds; ++round) {
      low += philox_step[0];
      high += philox_step[1];
      HEED_UNROLL
      for (std::size_t part = 0; part < parts; ++part) {
        wide to_third, to_first;
        lanes::multiply(to_third, philox_factor[0], word[0][part]);
        lanes::multiply(to_first, philox_factor[1], word[2][part]);
        word[0][part] = (to_first >> 32) ^ word[1][part] ^ std::uint64_t{low};
        word[1][part] = to_first;
        word[2][part] = (to_third >> 32) ^ word[3][part] ^ std::uint64_t{high};
        word[3][part] = to_third;
      }
    }
  }

 private:
  std::uint32_t key_[2];
  std::uint32_t last_;    // word 3 of every counter
  std::uint32_t middle_;  // word 1 after the first round
  wide rows_[parts];      // product with word 0 after the first round: its halves are words 2 and 3 after the second
};

/// probabilities [keys, lanes], `vectors` of them, of the block's rows and keys: 0 where `given` says so, whatever was
/// there, and times 1 / (1 - p) elsewhere. Lanes past the last row take part.
template <class Simd>
HEED_VERB void drop(typename Simd::scalar* probabilities, index_t lanes, int vectors, block const area,
                    dropout const given) noexcept {
  using Real = typename Simd::scalar;
  using vector = typename Simd::vector;
  const std::uint64_t threshold = dropout_threshold(given.p);
  if (threshold > 0xffffffffu) {
    for (index_t key = 0; key < area.key_end - area.key_begin; ++key) {
      for (int v = 0; v < vectors; ++v) Simd::store(probabilities + key * lanes + v * Simd::lanes, vector{});
    }
    return;
  }
  const Real times = static_cast<Real>(1 / (1 - given.p));
  const philox_words counter = dropout_counter(given, area.batch, area.head);
  for (int v = 0; v < vectors; ++v) {
    const philox_rows<Simd> rows(counter, given.seed, static_cast<std::uint64_t>(area.query_begin + v * Simd::lanes));
    for (index_t group = area.key_begin / 4; group * 4 < area.key_end; ++group) {
      typename philox_lanes<Simd>::wide word[4][std::size_t{philox_lanes<Simd>::parts}]{};
      rows.at(low_word(static_cast<std::uint64_t>(group)), word);
      HEED_UNROLL
      for (int i = 0; i < 4; ++i) {
        const index_t key = group * 4 + i;
        if (key < area.key_begin || key >= area.key_end) continue;
        Real* const place = probabilities + (key - area.key_begin) * lanes + v * Simd::lanes;
        typename Simd::integers keep;
        philox_lanes<Simd>::at_least(keep, word[i], static_cast<std::uint32_t>(threshold));
        vector probability;
        Simd::load(probability, place);
        probability = keep ? probability * times : vector{};
        Simd::store(place, probability);
      }
    }
  }
}

}  // namespace heed::detail
