// block_sparse: maps of every rank, stride and block size, as given and packed.
#include "heed/mask/block_sparse.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "heed/cpu/packed_blocks.hpp"
#include "support/blocks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

void check_map(block_sparse const& mask, block const& area, std::map<cover, int>& seen) {
  detail::problem call;
  call.batch_size = batch_size, call.num_heads = heads, call.seq_len_q = rows, call.seq_len_kv = keys;
  ++seen[check_block(mask, area, precision::exact)];
  check_border(mask, area);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(detail::block_words(mask, call).count()) + 1, 7u);
  const auto packed = detail::pack_blocks(mask, call, words.data());
  EXPECT_EQ(words.back(), 7u);
  (void)check_block(packed, mask, area, precision::exact);
  check_border(packed, area);
}

TEST(BlockSparse, IsExactForEveryBlockSizeRankAndStride) {
  random_source random(1);
  std::map<cover, int> seen;
  for (int turn = 0; turn < 6000; ++turn) {
    std::vector<unsigned char> bits(8000);
    const double set = random.pick({0.5, 0.9, 0.1, 1.0});
    for (auto& bit : bits) bit = random.chance(set) ? 1 : 0;
    bool const* const data = reinterpret_cast<bool const*>(bits.data()) + 4000;
    const auto size = [&] { return random.chance(0.1) ? INT64_MAX : random.between(1, 16); };
    const index_t block_rows = size(), block_keys = size();
    const index_t r = random.chance(0.1) ? 1 : detail::ceil_div(rows, block_rows),
                  k = random.chance(0.1) ? 1 : detail::ceil_div(keys, block_keys);
    const index_t b = random.chance(0.5) ? 1 : batch_size, h = random.chance(0.5) ? 1 : heads;
    const index_t step = random.pick({index_t{1}, index_t{3}, index_t{-1}}), line = random.between(-50, 50);
    const block area = random_block(random, random_offset(random));
    const auto check = [&](auto const& view) { check_map({view, block_rows, block_keys}, area, seen); };
    switch (random.between(2, 4)) {
      case 2: check(tensor_view<bool const, 2>(data, {r, k}, {line, step})); break;
      case 3: check(tensor_view<bool const, 3>(data, {h, r, k}, {random.between(-200, 200), line, step})); break;
      default:
        check(tensor_view<bool const, 4>(data, {b, h, r, k},
                                         {random.between(-300, 300), random.between(-200, 200), line, step}));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 200);
  EXPECT_GT(seen[cover::full], 200);
  EXPECT_GT(seen[cover::partial], 200);
}

TEST(BlockSparse, IsMadeOfATensorToo) {
  tensor<bool, 2> map({2, 3});
  map(1, 2) = true;
  const block_sparse mask{.blocks = map, .block_rows = 10, .block_keys = 4};
  EXPECT_TRUE(mask.allows({5, 6, 10, 8, 0}));
  EXPECT_FALSE(mask.allows({5, 6, 9, 8, 0}));
  EXPECT_FALSE(mask.allows({5, 6, 10, 7, 0}));
  EXPECT_EQ(mask.next_border({0, 0, 3, 20, 0, 12, 0}), 10);
}

}  // namespace
