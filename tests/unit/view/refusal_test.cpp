// What views and tensors refuse, and the texts that say why.
#include <gtest/gtest.h>

#include <string>

#include "heed/view/layout.hpp"

namespace {

using namespace heed;

template <class F>
errc code_of(F const& call) {
  try {
    call();
  } catch (error const& broken) {
    EXPECT_NE(std::string(broken.what()).find("heed::tensor"), std::string::npos) << broken.what();
    return broken.code();
  }
  return errc::ok;
}

TEST(Tensor, RefusesExtentsThatCannotBe) {
  const index_t huge = index_t{1} << 40;
  EXPECT_EQ(code_of([] { tensor<float, 2>({2, -1}); }), errc::negative_extent);
  EXPECT_EQ(code_of([&] { tensor<float, 2>({huge, huge}); }), errc::size_overflow);
  EXPECT_EQ(code_of([&] { tensor<double, 1>({index_t{1} << 61}); }), errc::size_overflow);
}

TEST(Layout, SaysWhyAViewCannotBeSplitOrMerged) {
  int numbers[24] = {};
  const tensor_view<int, 3> packed(numbers, {1, 4, 6});
  for (int heads : {0, -1, 4, 7}) {
    try {
      (void)split_heads(packed, heads);
      ADD_FAILURE() << heads;
    } catch (error const& broken) {
      EXPECT_EQ(broken.code(), errc::heads_not_divisible);
      EXPECT_NE(std::string(broken.what()).find("heed::split_heads: num_heads (" + std::to_string(heads) + ")"),
                std::string::npos);
    }
  }
  try {
    (void)merge_heads(bhsd(numbers, 1, 2, 3, 4));
    ADD_FAILURE();
  } catch (error const& broken) {
    EXPECT_EQ(broken.code(), errc::not_mergeable);
    EXPECT_NE(std::string(broken.what()).find("heed::merge_heads: the head stride (12)"), std::string::npos);
  }
}

}  // namespace
