// A rule of the caller's own may show other keys to each query head, also to those that share one kv head.
#include <gtest/gtest.h>

#include <algorithm>

#include "heed/heed.hpp"
#include "support/bits.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using heed::test::random_tensor;
using heed::test::same_bits;

/// Head h sees keys [width * h, width * (h + 1)), and says so before anything is scored.
struct stripes {
  index_t width;

  [[nodiscard]] bool allows(position const& at) const { return at.key / width == at.head; }
  [[nodiscard]] key_range visible_keys(block const& area) const {
    return {std::max(area.key_begin, width * area.head), std::min(area.key_end, width * (area.head + 1))};
  }
  [[nodiscard]] cover covers(block const& area) const {
    const key_range seen = visible_keys(area);
    if (seen.begin >= seen.end) return cover::none;
    return seen.begin == area.key_begin && seen.end == area.key_end ? cover::full : cover::partial;
  }
};

template <class T>
void check_stripes() {
  // So many rows for one kv head that its K and V are packed once for all four query heads.
  const index_t heads = 4, rows = 210, width = 19, dim = 24;
  const auto query = random_tensor<T>({2, heads, rows, dim}, 1), key = random_tensor<T>({2, 1, heads * width, dim}, 2),
             value = random_tensor<T>({2, 1, heads * width, dim}, 3);
  tensor<bool, 4> mask({1, heads, 1, heads * width});
  for (index_t head = 0; head < heads; ++head) {
    for (index_t j = 0; j < heads * width; ++j) mask(0, head, 0, j) = j / width == head;
  }
  const auto wanted = attention(query, key, value, keep_mask(mask), {.threads = 1});
  for (int threads : {1, 3}) {
    EXPECT_TRUE(same_bits(wanted, attention(query, key, value, stripes{width}, {.threads = threads}))) << threads;
  }
}

TEST(RulePerHead, HeadsOfOneGroupSeeTheirOwnKeysHalf) { check_stripes<half>(); }
TEST(RulePerHead, HeadsOfOneGroupSeeTheirOwnKeysBfloat16) { check_stripes<bfloat16>(); }

}  // namespace
