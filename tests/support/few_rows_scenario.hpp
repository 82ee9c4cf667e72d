// Lines of the oracle's table with few query rows, which run on kernels of their own, or on tiles of their own.
#pragma once

#include <iterator>

#include "support/scenario.hpp"

namespace heed::test {

/// From one row to more than pass together (the heads of a wide group take turns); keys from one to several splits.
inline scenario decode_scenario(std::uint64_t seed) {
  constexpr index_t row_counts[] = {1, 1, 1, 2, 3, 4, 5, 7};
  constexpr index_t group_sizes[] = {1, 1, 1, 2, 2, 3, 4, 8, 12, 33, 71};
  constexpr index_t key_counts[] = {1, 3, 17, 127, 129, 200, 600, 1025, 2049, 5000};
  constexpr index_t head_dims[] = {1, 7, 15, 16, 17, 32, 40, 59, 64, 80, 128, 256};
  scenario s = random_scenario(seed);
  random_source random(seed + 5);
  const auto of = [&](auto const& list) { return list[random.bits() % std::size(list)]; };
  s.rows = of(row_counts);
  s.heads = s.kv_heads * of(group_sizes);
  s.keys = of(key_counts);
  s.dim = of(head_dims);
  s.value_dim = random.chance(0.5) ? s.dim : of(head_dims);
  if (s.heads * s.batch > 8) s.keys = s.heads * s.batch > 32 ? s.keys % 200 : s.keys % 700;  // the reference is slow
  if (s.keys > 2000 && s.dim + s.value_dim > 128) s.dim = s.value_dim = 64;
  if (s.rank < 4) s.heads = s.kv_heads = 1;
  if (s.rank == 2) s.batch = 1;
  if (s.offset > -10000 && s.offset < 10000) s.offset = random.between(-s.rows - 1, s.keys + 1);
  return s;
}

/// No more rows than fill half a vector of AVX-512, head dimensions in pairs: tiles there hold two columns of each row.
/// Fewer rows than eight come to them with dropout only.
inline scenario half_vector_scenario(std::uint64_t seed) {
  constexpr index_t head_dims[] = {2, 4, 14, 16, 18, 30, 32, 34, 62, 64, 66, 96, 130};
  constexpr index_t key_counts[] = {1, 3, 7, 8, 16, 17, 59, 128, 129, 300};
  scenario s = random_scenario(seed);
  random_source random(seed + 6);
  const auto of = [&](auto const& list) { return list[random.bits() % std::size(list)]; };
  s.rows = random.chance(0.3) ? random.between(1, 7) : 8;
  if (s.rows < 8) s.drop = {random.pick({0.1, 0.5, 1e-12}), random.bits(), random.bits()};
  s.keys = of(key_counts);
  s.dim = of(head_dims);
  s.value_dim = random.chance(0.5) ? s.dim : of(head_dims);
  if (s.offset > -10000 && s.offset < 10000) s.offset = random.between(-s.rows - 1, s.keys + 1);
  return s;
}

}  // namespace heed::test
