// Public fault reports about windows, packed documents and blocks of keys, with the value that is right.
#include <gtest/gtest.h>

#include "support/cases.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Cases, A7_a_window_and_a_key_mask_intersect) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8});
    const bool keys[] = {true, false, true, true};
    const auto keep = keep_mask(tensor_view<bool const, 1>(keys, {4}));
    const window one{.left = 1, .right = 0};
    expect_values(means<T>(1, 4, v, keep & one).out, {1, 1, 4, 6});
    expect_values(means<T>(1, 4, v, one & keep & causal{}).out, {1, 1, 4, 6});
    const auto by_hand = mask_fn([](position at) { return at.key != 1; });
    expect_values(means<T>(1, 4, v, by_hand & one).out, {1, 1, 4, 6});
  });
}

TEST(Cases, A13_rows_of_no_document_leave_the_others_alone) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8, 16, 32});
    const std::vector<index_t> ids{0, 0, 1, 1, 2, 2}, rows{0, 0, 1, 1, -1, -1};
    const auto found = means<T>(1, 6, v, documents{.ids = ids, .query_ids = rows});
    expect_values(found.out, {1.5, 1.5, 6, 6, 0, 0});
    expect_values(found.lse, {std::log(2.0), std::log(2.0), std::log(2.0), std::log(2.0), -infinity, -infinity});
    tensor<bool, 2> map({3, 3});
    map(0, 0) = map(1, 1) = true;
    expect_values(means<T>(1, 6, v, block_sparse{.blocks = map, .block_rows = 2, .block_keys = 2}).out,
                  {1.5, 1.5, 6, 6, 0, 0});
  });
}

TEST(Cases, B5_the_window_counts_keys_beside_the_own_one) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8, 16});
    expect_values(means<T>(1, 5, v, causal{} & window{.left = 2}).out, {1, 1.5, 7.0 / 3, 14.0 / 3, 28.0 / 3});
    expect_values(means<T>(1, 5, v, causal{} & window{.left = 3}).out, {1, 1.5, 7.0 / 3, 3.75, 7.5});
    expect_values(means<T>(1, 5, v, window{.left = 0, .right = 0}).out, {1, 2, 4, 8, 16});
  });
}

TEST(Cases, B7_a_window_has_two_sides) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8, 16});
    expect_values(means<T>(1, 5, v, window{.left = 2, .right = 1}).out, {1.5, 7.0 / 3, 3.75, 7.5, 28.0 / 3});
    expect_values(means<T>(1, 5, v, window{.right = 1}).out, {1.5, 7.0 / 3, 3.75, 6.2, 6.2});
    expect_values(means<T>(1, 5, v, window{.left = 1}).out, {6.2, 6.2, 7.5, 28.0 / 3, 12});
  });
}

TEST(Cases, B8_a_huge_window_hides_nothing) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 3});
    for (index_t huge : {INT64_MAX, INT64_MAX - 1, index_t{1} << 40}) {
      expect_values(means<T>(1, 4, v, window{.left = huge, .right = huge}).out, {2, 2, 2, 2});
      expect_values(means<T>(1, 4, v, window{.left = huge}).out, {2, 2, 2, 2});
      expect_values(means<T>(1, 4, v, window{.left = huge, .right = 0}).out, {0, 0, 1, 2});
      // Row i stands at huge + i, and sees keys from i on.
      expect_values(means<T>(1, 4, v, window{.left = huge, .right = huge}, {.anchor = at_offset(huge)}).out,
                    {2, 3, 0, 0});
      // At i - huge, up to key i.
      expect_values(means<T>(1, 4, v, window{.left = 0, .right = huge}, {.anchor = at_offset(-huge)}).out,
                    {1, 2, 2, 2});
    }
    expect_values(means<T>(1, 4, v, window{}).out, {2, 2, 2, 2});
  });
}

TEST(Cases, B10_the_edge_of_a_window_over_a_long_sequence) {
  for_each_type([]<class T>(T) {
    if (sizeof(T) < 4) return;  // 2047 is not a number of theirs
    for (auto const& [length, left] : {std::pair<index_t, index_t>{200, 64}, {2048, 1024}, {129, 31}}) {
      const auto found = means<T>(1, length, counted_values<T>(length), window{.left = left, .right = 0});
      for (index_t i = 0; i < length; ++i) {
        const double expected =
            i <= left ? static_cast<double>(i) / 2 : static_cast<double>(i) - static_cast<double>(left) / 2;
        ASSERT_NEAR(static_cast<double>(found.out(0, 0, i, 0)), expected, 2e-6 * (1 + expected)) << length << " " << i;
      }
    }
  });
}

TEST(Cases, F1_packed_sequences_of_one_row_and_none) {
  for_each_type([]<class T>(T) {
    // cu_q = [0, 0, 1, 1, 2], cu_k = [0, 0, 3, 3, 8].
    const std::vector<index_t> ids{1, 1, 1, 3, 3, 3, 3, 3}, rows{1, 3};
    tensor<T, 4> v({1, 3, 8, 1});
    for (index_t i = 0; i < 24; ++i) v.data()[i] = static_cast<T>(static_cast<double>(i % 8 + 1));
    std::vector<double> expected;
    for (int head = 0; head < 9; ++head) expected.insert(expected.end(), {2, 6});
    expect_values(means<T>(9, 2, v, documents{.ids = ids, .query_ids = rows}).out, expected);
    expect_values(means<T>(9, 2, v, causal{} & documents{.ids = ids, .query_ids = rows}).out, expected);
  });
}

TEST(Cases, F3_a_packed_sequence_with_queries_and_no_keys) {
  for_each_type([]<class T>(T) {
    const std::vector<index_t> ids{1, 1}, rows{0, 0, 1};  // cu_q = [0, 2, 3], cu_k = [0, 0, 2]
    const auto found = means<T>(1, 3, values_of<T>({1, 3}), documents{.ids = ids, .query_ids = rows});
    expect_values(found.out, {0, 0, 2});
    expect_values(found.lse, {-infinity, -infinity, std::log(2.0)});
  });
}

TEST(Cases, G2_the_first_blocks_may_lie_outside_of_the_window) {
  for_each_type([]<class T>(T) {
    const auto v = counted_values<T>(256);
    tensor<bool, 1> keep({256});
    for (index_t j = 192; j < 256; ++j) keep(j) = true;
    expect_values(means<T>(1, 1, v, causal{} & window{.left = 100} & keep_mask(keep)).out, {223.5});
    expect_values(means<T>(1, 1, v, window{.left = 0}).out, {255});
    const auto all = means<T>(1, 256, v, causal{} & window{.left = 1});
    for (index_t i = 1; i < 256; ++i) {
      ASSERT_NEAR(static_cast<double>(all.out(0, 0, i, 0)), static_cast<double>(i) - 0.5,
                  tolerance<T>() * static_cast<double>(i));
    }
  });
}

TEST(Cases, K3_windows_repeat_their_bits) {
  const auto q = pattern<float>(31, 1, {1, 8, 300, 32}), k = pattern<float>(5, 20, {1, 1, 500, 32});
  const auto first = attend(q, k, k, causal{} & window{.left = 70});
  for (int threads : {1, 2, 3, 7}) {
    const auto again = attend(q, k, k, causal{} & window{.left = 70}, {.threads = threads});
    EXPECT_TRUE(same_bits(first.out, again.out));
    EXPECT_TRUE(same_bits(first.lse, again.lse));
  }
}

}  // namespace
