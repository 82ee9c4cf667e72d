// A call in every layout of its operands gives the bits of the contiguous one.
#pragma once

#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "support/random.hpp"
#include "support/stored.hpp"

namespace heed::test {

/// `at`: batch, query heads, key heads, rows, keys and head_dim.
struct layout_sizes {
  index_t batch, heads, kv_heads, rows, keys, dim;
};

template <class T>
void expect_same_bits_in_all_layouts(layout_sizes const& at) {
  const auto q = random_tensor<T>({at.batch, at.heads, at.rows, at.dim}, 12),
             k = random_tensor<T>({at.batch, at.kv_heads, at.keys, at.dim}, 13),
             v = random_tensor<T>({at.batch, at.kv_heads, at.keys, at.dim}, 14);
  tensor<T, 4> contiguous({at.batch, at.heads, at.rows, at.dim});
  attention(q, k, v, contiguous, causal{});
  const auto in = [](tensor<T, 4> const& from, layout kind) {
    stored<T> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)}, kind);
    to.fill([&](index_t i, index_t j, index_t s, index_t d) { return from(i, j, s, d); });
    return to;
  };
  for (layout kind : output_layouts) {
    const auto sq = in(q, kind), sk = in(k, kind), sv = in(v, kind);
    stored<T> out({at.batch, at.heads, at.rows, at.dim}, kind);
    attention(sq.view(), sk.view(), sv.view(), out.view(), causal{});
    EXPECT_TRUE(same_bits(contiguous.view(), out.view())) << name_of(kind);
    attention(sq.view(), k, sv.view(), out.view(), causal{}, {.threads = 2});
    EXPECT_TRUE(same_bits(contiguous.view(), out.view())) << name_of(kind);
  }
}

}  // namespace heed::test
