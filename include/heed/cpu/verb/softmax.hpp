// softmax: scores become probabilities under the running maximum; and the second look, when the maximum is final.
#pragma once

#include "heed/base/index.hpp"
#include "heed/cpu/simd/exp2.hpp"

namespace heed::detail {

template <class Real>
inline constexpr Real log2_e = Real(1.4426950408889634074);

// A row that has seen nothing has the maximum -inf; 0 in its place keeps -inf - (-inf) out of the exponent.
template <class Simd>
HEED_VERB void finite_base(typename Simd::vector& to, typename Simd::vector const& maximum) noexcept {
  using Real = typename Simd::scalar;
  const typename Simd::vector zero{};
  to = maximum == zero - infinity<Real> ? zero : maximum;
}

/// scores [keys, lanes] -> 2^((scores - block_max) * to_exponent), in place; row_max = block_max; rescale [lanes] is
/// what the accumulated output must be multiplied with. Where a word holds two keys, the probabilities become words
/// [keys / 2, lanes], rounded.
/// row_sum = row_sum * rescale + their sum, as they will be multiplied and as the output sums: weights too small to
/// change the one do not change the other. Where words round, exact_sum is the sum before that, for lse and weights;
/// null if nobody asks.
template <class Simd, int Vectors>
HEED_VERB void softmax(typename Simd::scalar* scores, index_t keys, typename Simd::scalar to_exponent,
                       typename Simd::scalar const* block_max, typename Simd::scalar* row_max,
                       typename Simd::scalar* row_sum, [[maybe_unused]] typename Simd::scalar* exact_sum,
                       typename Simd::scalar* rescale) noexcept {
  using vector = typename Simd::vector;
  constexpr int lanes = Vectors * Simd::lanes;
  constexpr int step = Simd::elements_per_word;
  vector base[std::size_t{Vectors}], sum[std::size_t{Vectors}], exact[std::size_t{Vectors}];
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    vector highest;
    Simd::load(highest, block_max + v * Simd::lanes);
    finite_base<Simd>(base[v], highest);
    sum[v] = exact[v] = vector{};
  }
  for (index_t key = 0; key < keys; key += step) {
    vector probability[std::size_t{Vectors}][std::size_t{step}];
    HEED_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      HEED_UNROLL
      for (int part = 0; part < step; ++part) {
        vector score;
        Simd::load(score, scores + (key + part) * lanes + v * Simd::lanes);
        score = (score - base[v]) * to_exponent;
        exp2<Simd>(probability[v][part], score);
      }
      if constexpr (step == 1) {
        Simd::store(scores + key * lanes + v * Simd::lanes, probability[v][0]);
        sum[v] += probability[v][0];
      } else {
        vector words;
        Simd::round_pair(words, probability[v][0], probability[v][1]);
        Simd::store(scores + key / 2 * lanes + v * Simd::lanes, words);
        Simd::add_pair(sum[v], words);
      }
    }
    if constexpr (step > 1) {
      if (exact_sum == nullptr) continue;
      HEED_UNROLL
      for (int v = 0; v < Vectors; ++v) exact[v] += probability[v][0] + probability[v][1];
    }
  }
  HEED_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    vector before, factor;
    Simd::load(before, row_max + v * Simd::lanes);
    before = (before - base[v]) * to_exponent;
    exp2<Simd>(factor, before);
    Simd::store(rescale + v * Simd::lanes, factor);
    Simd::load(before, row_sum + v * Simd::lanes);
    sum[v] = before * factor + sum[v];
    Simd::store(row_sum + v * Simd::lanes, sum[v]);
    if (step > 1 && exact_sum != nullptr) {
      Simd::load(before, exact_sum + v * Simd::lanes);
      exact[v] = before * factor + exact[v];
      Simd::store(exact_sum + v * Simd::lanes, exact[v]);
    }
    Simd::load(before, block_max + v * Simd::lanes);
    Simd::store(row_max + v * Simd::lanes, before);
  }
}

/// scores [keys, lanes] -> 2^((scores - row_max) * to_exponent) * factor, in place; 0 where a score is -inf, even in a
/// row that is NaN.
template <class Simd>
HEED_VERB void probabilities(typename Simd::scalar* scores, index_t keys, int vectors,
                             typename Simd::scalar to_exponent, typename Simd::scalar const* row_max,
                             typename Simd::scalar const* factor) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  const vector minus_infinity = vector{} - infinity<Real>;
  for (int v = 0; v < vectors; ++v) {
    vector base, times;
    Simd::load(base, row_max + v * Simd::lanes);
    finite_base<Simd>(base, base);
    Simd::load(times, factor + v * Simd::lanes);
    for (index_t key = 0; key < keys; ++key) {
      Real* const place = scores + (key * vectors + v) * Simd::lanes;
      vector score, probability;
      Simd::load(score, place);
      vector exponent = (score - base) * to_exponent;
      exp2<Simd>(probability, exponent);
      probability = score == minus_infinity ? vector{} : probability * times;
      Simd::store(place, probability);
    }
  }
}

/// The same for scores [rows, row_stride], in place, the keys in the lanes and row_max and factor [rows]: the same
/// bits.
template <class Simd>
HEED_VERB void weigh_rows(typename Simd::scalar* scores, index_t row_stride, index_t rows, index_t keys,
                          typename Simd::scalar to_exponent, typename Simd::scalar const* row_max,
                          typename Simd::scalar const* factor) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  const vector minus_infinity = vector{} - infinity<Real>;
  for (index_t row = 0; row < rows; ++row) {
    vector base, times;
    Simd::splat(base, row_max + row);
    finite_base<Simd>(base, base);
    Simd::splat(times, factor + row);
    Real* const line = scores + row * row_stride;
    for (index_t key = 0; key < keys; key += Simd::lanes) {
      // What is left over goes through a vector of its own.
      alignas(64) Real rest[std::size_t{Simd::lanes}];
      const index_t left = lesser(keys - key, Simd::lanes);
      Real* const place = left == Simd::lanes ? line + key : rest;
      if (place == rest) {
        for (index_t i = 0; i < Simd::lanes; ++i) rest[i] = i < left ? line[key + i] : Real(0);
      }
      vector score, probability;
      Simd::load_unaligned(score, place);
      vector exponent = (score - base) * to_exponent;
      exp2<Simd>(probability, exponent);
      probability = score == minus_infinity ? vector{} : probability * times;
      Simd::store_unaligned(place, probability);
      if (place == rest) {
        for (index_t i = 0; i < left; ++i) line[key + i] = rest[i];
      }
    }
  }
}

/// Probabilities [keys, lanes] become words [keys / 2, lanes], in place.
template <class Simd>
HEED_VERB void round_pairs(typename Simd::scalar* probabilities, index_t keys, int vectors) noexcept {
  typename Simd::vector low, high;
  const index_t lanes = vectors * Simd::lanes;
  for (index_t key = 0; key < keys; key += 2) {
    for (index_t lane = 0; lane < lanes; lane += Simd::lanes) {
      Simd::load(low, probabilities + key * lanes + lane);
      Simd::load(high, probabilities + (key + 1) * lanes + lane);
      Simd::round_pair(low, low, high);
      Simd::store(probabilities + key / 2 * lanes + lane, low);
    }
  }
}

/// factor [lanes] = 1 / row_sum, 0 for a row that saw nothing. Returns whether the output [head_dim, lanes] is finite.
template <class Simd>
HEED_VERB bool finish(typename Simd::scalar const* out, index_t head_dim, int vectors,
                      typename Simd::scalar const* row_sum, typename Simd::scalar* factor) noexcept {
  using vector = typename Simd::vector;
  using Real = typename Simd::scalar;
  vector poison[8]{};  // 0, or NaN once an infinity or a NaN has been met; eight, so that none waits for the others
  for (int v = 0; v < vectors; ++v) {
    vector total;
    Simd::load(total, row_sum + v * Simd::lanes);
    const vector inverse = total == vector{} ? total : Real(1) / total;
    Simd::store(factor + v * Simd::lanes, inverse);
  }
  index_t place = 0;
  for (; place + 8 <= head_dim * vectors; place += 8) {
    HEED_UNROLL
    for (int i = 0; i < 8; ++i) {
      vector value;
      Simd::load(value, out + (place + i) * Simd::lanes);
      poison[i] += value * Real(0);
    }
  }
  for (; place < head_dim * vectors; ++place) {
    vector value;
    Simd::load(value, out + place * Simd::lanes);
    poison[0] += value * Real(0);
  }
  HEED_UNROLL
  for (int i = 1; i < 8; ++i) poison[0] += poison[i];
  return Simd::is_zero(poison[0]);
}

}  // namespace heed::detail
