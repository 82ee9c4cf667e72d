// explain is a dry run of every call that attention takes, also of those with nothing to do.
#include <gtest/gtest.h>

#include <string>

#include "heed/heed.hpp"

namespace {

using heed::index_t;

TEST(Explain, TakesEmptyCalls) {
  for (int axis = 0; axis < 4; ++axis) {
    const index_t batch_size = axis == 0 ? 0 : 2, heads = axis == 1 ? 0 : 4, rows = axis == 2 ? 0 : 5;
    const index_t keys = axis == 3 ? 0 : 7;
    heed::tensor<float, 4> query({batch_size, heads, rows, 3}), key({batch_size, heads, keys, 3});
    heed::tensor<float, 4> out({batch_size, heads, rows, 3});
    const std::string text = heed::explain(query, key, key, out, heed::causal{});
    EXPECT_NE(text.find("flops: 0\n"), std::string::npos) << axis << "\n" << text;
    EXPECT_NE(text.find("blocks: skipped 0, full 0, partial 0\n"), std::string::npos) << axis << "\n" << text;
  }
}

}  // namespace
