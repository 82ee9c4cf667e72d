// How much stack a backward pass takes.
#include <gtest/gtest.h>

#include "support/gradients.hpp"
#include "support/sanitizers.hpp"
#include "support/small_stack.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(GradientStack, J8_a_stack_of_128_KiB_is_enough) {
#if HEED_TEST_ASAN || HEED_TEST_TSAN
  GTEST_SKIP() << "a sanitizer's frames are not those of the library";
#endif
  const auto check = [](auto element, index_t rows, index_t keys, index_t dim) {
    using T = decltype(element);
    const auto q = pattern<T>(31, 1, {1, 1, rows, dim}), k = pattern<T>(5, 20, {1, 1, keys, dim});
    for (int threads : {1, 2}) {
      const auto right = differentiate(q, k, k, q, causal{}, {.threads = threads});
      on_a_small_stack(
          [&] { EXPECT_TRUE(same_gradients(right, differentiate(q, k, k, q, causal{}, {.threads = threads}))); });
    }
  };
  check(double{}, 100, 1500, 512);
  check(double{}, 1500, 100, 512);
  check(float{}, 200, 300, 2000);
}

}  // namespace
