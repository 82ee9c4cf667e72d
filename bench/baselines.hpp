// Attention without heed: what stands below it on the ladder, and beside it among the rivals. Float, heads contiguous
// in [heads, rows, dim], one thread, scale 1 / sqrt(dim).
#pragma once

#include <cstddef>

#include "bench/call.hpp"

namespace bench {

struct head_block {
  float const *query, *key, *value;
  float* out;
  std::ptrdiff_t heads, rows, dim;
};

inline head_block head_block_of(shape const& at, call& one) {
  const auto data = one.data();
  return {static_cast<float const*>(data.query),
          static_cast<float const*>(data.key),
          static_cast<float const*>(data.value),
          static_cast<float*>(data.out),
          static_cast<std::ptrdiff_t>(at.batch_size * at.num_heads),
          static_cast<std::ptrdiff_t>(at.seq_len),
          static_cast<std::ptrdiff_t>(at.head_dim)};
}

/// Three nested loops, as in a textbook.
void naive_loops(head_block const& on);

/// softmax(Q K^T) V with Eigen's products: the whole matrix of scores of a head at once.
void eigen_products(head_block const& on);

/// The same by blocks of queries and keys, with a running maximum and sum: scores stay in the caches.
void eigen_blocks(head_block const& on);

/// Whether `eigen_*` were compiled for this machine, and so may use its widest vectors.
bool eigen_is_native();

}  // namespace bench
