// The reference against whole matrices multiplied by Eigen, with masks written out by hand.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <vector>

#include "heed/reference/forward.hpp"
#include "support/eigen_oracle.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

TEST(Reference, AgreesWithEigen) {
  test::random_source random(7);
  for (int turn = 0; turn < 40; ++turn) {
    const index_t batch = random.between(1, 2), kv_heads = random.between(1, 3),
                  heads = kv_heads * random.between(1, 3);
    const index_t rows = random.between(1, 20), keys = random.between(0, 20), dim = random.between(1, 9),
                  value_dim = random.between(1, 9), off = random.between(-3, 20);
    const auto random_tensor = [&](axes<4> extents) {
      tensor<double, 4> filled(extents);
      for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = random.normal();
      return filled;
    };
    const auto q = random_tensor({batch, heads, rows, dim}), k = random_tensor({batch, kv_heads, keys, dim}),
               v = random_tensor({batch, kv_heads, keys, value_dim});
    tensor<bool, 4> keep({batch, 1, rows, keys});
    for (index_t i = 0; i < keep.size(); ++i) keep.data()[i] = random.chance(0.6);
    std::vector<index_t> key_len, key_start, query_len;
    for (index_t b = 0; b < batch; ++b) {
      key_len.push_back(random.between(0, keys));
      key_start.push_back(random.between(0, key_len.back()));
      query_len.push_back(random.between(0, rows));
    }
    const double scale = random.uniform() * 4 - 2;
    const auto found = reference::solve(
        q, k, v, keep_mask(keep) & lengths{.query = query_len, .key = key_len, .key_start = key_start} & causal{},
        {.scale = scale, .anchor = at_offset(off)});
    const auto expected = test::eigen_attention(q, k, v, scale, [&](index_t b, index_t, index_t i, index_t j) {
      const auto item = static_cast<std::size_t>(b);
      return keep(b, 0, i, j) && i < query_len[item] && j < key_len[item] && j >= key_start[item] && j <= i + off;
    });
    for (index_t i = 0; i < found.out.size(); ++i) EXPECT_NEAR(found.out.data()[i], expected.out.data()[i], 1e-13);
    for (index_t i = 0; i < found.weights.size(); ++i)
      EXPECT_NEAR(found.weights.data()[i], expected.weights.data()[i], 1e-14);
    for (index_t i = 0; i < found.lse.size(); ++i) {
      if (std::isinf(expected.lse.data()[i])) {
        EXPECT_EQ(found.lse.data()[i], minus_infinity);
      } else {
        EXPECT_NEAR(found.lse.data()[i], expected.lse.data()[i], 1e-13);
      }
    }
  }
}

}  // namespace
