// Public fault reports about masks and about where a causal diagonal lies, with the value that is right.
#include <gtest/gtest.h>

#include "heed/reference/forward.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Cases, A1_masks_broadcast_over_heads_or_batch_alone) {
  for_each_type([]<class T>(T) {
    const auto q = pattern<T>(31, 1, {2, 2, 2, 4}), k = pattern<T>(5, 20, {2, 2, 3, 4}),
               v = pattern<T>(7, 30, {2, 2, 3, 4});
    for (const axes<4>& shape : {axes<4>(2, 1, 2, 3), axes<4>(1, 2, 2, 3), axes<4>(2, 2, 2, 3), axes<4>(2, 1, 1, 3),
                                 axes<4>(1, 2, 2, 1), axes<4>(2, 2, 1, 1), axes<4>(1, 1, 2, 3)}) {
      random_source random(static_cast<std::uint64_t>(shape[0] * 100 + shape[1] * 10 + shape[2]));
      const auto keep = bools(shape, [&](auto...) { return random.chance(0.6); });
      const auto whole = bools({2, 2, 2, 3}, [&](index_t b, index_t h, index_t i, index_t j) {
        return keep(b % shape[0], h % shape[1], i % shape[2], j % shape[3]);
      });
      EXPECT_TRUE(same_bits(attend(q, k, v, keep_mask(keep)).out, attend(q, k, v, keep_mask(whole)).out));
      EXPECT_TRUE(same_bits(attend(q, k, v, drop_mask(keep)).lse, attend(q, k, v, drop_mask(whole)).lse));
    }
  });
}

TEST(Cases, A3_low_rank_masks_align_right) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> v({2, 3, 4, 1});
    std::vector<double> expected;
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 3; ++h) {
        for (index_t j = 0; j < 4; ++j) v(b, h, j, 0) = static_cast<T>(static_cast<double>(j + 10 * h + 100 * b));
        expected.insert(expected.end(), 2, static_cast<double>(1 + 10 * h + 100 * b));
      }
    }
    bool bits[48];
    for (int i = 0; i < 48; ++i) bits[i] = i % 2 == 0;
    const auto check = [&](auto const& view) { expect_values(means<T>(3, 2, v, keep_mask(view)).out, expected); };
    check(tensor_view<bool const, 1>(bits, {4}));
    check(tensor_view<bool const, 2>(bits, {1, 4}));
    check(tensor_view<bool const, 2>(bits, {2, 4}));
    check(tensor_view<bool const, 3>(bits, {3, 1, 4}));
    check(tensor_view<bool const, 3>(bits, {3, 2, 4}));
    check(tensor_view<bool const, 4>(bits, {2, 3, 2, 4}));
    check(tensor_view<bool const, 4>(bits, {2, 1, 2, 4}));
    check(tensor_view<bool const, 2>(bits, {1, 4}, {-12345, 1}));

    // [2, 1, 1]: rank 3 is [heads, rows, keys], so with two heads each has a bool of its own.
    tensor<T, 4> two({2, 2, 4, 1});
    for (index_t i = 0; i < 16; ++i) two.data()[i] = static_cast<T>(static_cast<double>(i));
    const bool heads[] = {true, false};
    expect_values(means<T>(2, 1, two, keep_mask(tensor_view<bool const, 3>(heads, {2, 1, 1}))).out, {1.5, 0, 9.5, 0});
    const bool rows[] = {false, true};
    expect_values(means<T>(2, 2, two, keep_mask(tensor_view<bool const, 2>(rows, {2, 1}))).out,
                  {0, 1.5, 0, 5.5, 0, 9.5, 0, 13.5});
  });
}

TEST(Cases, A4_bools_select_and_are_not_added) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 3});
    const bool one[] = {true, false, false}, all[] = {true, true, true}, none[] = {false, false, false};
    const auto view = [](bool const* bits) { return tensor_view<bool const, 1>(bits, {3}); };
    expect_values(means<T>(1, 1, v, keep_mask(view(one))).out, {1});
    expect_values(means<T>(1, 1, v, drop_mask(view(one))).out, {2.5});
    const auto free = means<T>(1, 1, v), kept = means<T>(1, 1, v, keep_mask(view(all))),
               undropped = means<T>(1, 1, v, drop_mask(view(none)));
    EXPECT_TRUE(same_bits(free.out, kept.out));
    EXPECT_TRUE(same_bits(free.lse, kept.lse));
    EXPECT_TRUE(same_bits(free.out, undropped.out));
  });
  // All true is no mask, bit for bit, also over many blocks.
  const auto q = pattern<float>(31, 1, {1, 2, 100, 20}), k = pattern<float>(5, 20, {1, 2, 300, 20});
  const auto keep = bools({1, 1, 100, 300}, [](auto...) { return true; });
  EXPECT_TRUE(same_bits(attend(q, k, k, keep_mask(keep)).out, attend(q, k, k).out));
}

TEST(Cases, A6_causal_holds_on_every_path) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {index_t{1}, index_t{65}}) {
      const tensor<T, 4> q({1, 1, 3, dim});
      for (index_t padding : {0, 1, 13}) {
        std::vector<T> memory(static_cast<std::size_t>((dim + padding) * 3), static_cast<T>(not_a_number));
        const tensor_view<T, 4> k(memory.data(), {1, 1, 3, dim}, {dim * 9, dim * 3, dim + padding, index_t{1}});
        for (index_t j = 0; j < 3; ++j) {
          for (index_t d = 0; d < dim; ++d) k(0, 0, j, d) = static_cast<T>(0.5);
        }
        const auto v = values_of<T>({1, 3, 8});
        expect_values(attend(q, k, v, causal{}).out, {1, 2, 4});
        expect_values(attention(q, k, v, causal{}), {1, 2, 4});
        const auto [out, weights] = attention_with_weights(q, k, v, causal{});
        expect_values(out, {1, 2, 4});
        expect_values(weights, {1, 0, 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
        expect_values(attention(q, k, v, causal{} & no_mask{}, {.threads = 3}), {1, 2, 4});
        expect_values(attention(q, k, v, causal{}, {.precise = true}), {1, 2, 4});
      }
    }
  });
}

TEST(Cases, A7_a_band_and_a_key_mask_intersect) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8});
    const bool keys[] = {true, false, true, true};
    const auto band = bools({1, 1, 4, 4}, [](index_t, index_t, index_t i, index_t j) { return j <= i && j >= i - 1; });
    const auto keep = keep_mask(tensor_view<bool const, 1>(keys, {4}));
    expect_values(means<T>(1, 4, v, keep & keep_mask(band)).out, {1, 1, 4, 6});
    expect_values(means<T>(1, 4, v, keep_mask(band) & keep).out, {1, 1, 4, 6});
  });
}

TEST(Cases, A9_causal_and_mask_intersect) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4});
    const bool bits[] = {true, true, true, false, true, true, true, false, true};
    const auto keep = keep_mask(tensor_view<bool const, 2>(bits, {3, 3}));
    expect_values(means<T>(1, 3, v, causal{} & keep, {.anchor = top_left}).out, {1, 2, 2.5});
    expect_values(means<T>(1, 3, v, keep & causal{}).out, {1, 2, 2.5});
    const std::vector<index_t> two{2};
    expect_values(means<T>(1, 3, v, keep & causal{} & lengths{.key = two}, {.anchor = top_left}).out, {1, 2, 1});
  });
}

TEST(Cases, A10_what_is_hidden_may_hold_anything) {
  for_each_type([]<class T>(T) {
    const std::vector<index_t> one{1};
    const bool bits[] = {true, false};
    const auto keep = keep_mask(tensor_view<bool const, 1>(bits, {2}));
    for (double bad_key : {not_a_number, infinity, -infinity, 0.0}) {
      for (double bad_value : {infinity, -infinity, not_a_number}) {
        const auto q = values_of<T>({1}), k = values_of<T>({2, bad_key}), v = values_of<T>({3, bad_value});
        const auto check = [&](auto const& found) {
          expect_values(found.out, {3});
          expect_values(found.lse, {2});
        };
        check(attend(q, k, v, keep, {.scale = 1.0}));
        check(attend(q, k, v, causal{}, {.scale = 1.0, .anchor = top_left}));
        check(attend(q, k, v, lengths{.key = one}, {.scale = 1.0}));
        check(attend(q, values_of<T>({bad_key, 2}), values_of<T>({bad_value, 3}), lengths{.key_start = one},
                     {.scale = 1.0}));
      }
    }
  });
}

TEST(Cases, A12_masks_reach_the_last_key) {
  const auto mean_of = [](index_t keys, std::vector<index_t> const& kept) {
    tensor<bool, 1> keep({keys});
    for (index_t j : kept) keep(j) = true;
    return static_cast<double>(means<float>(1, 1, counted_values<float>(keys), keep_mask(keep)).out(0, 0, 0, 0));
  };
  EXPECT_NEAR(mean_of(600, {511, 512, 599}), 540.666667, 1e-4);
  EXPECT_NEAR(mean_of(4096, {0, 2047, 4095}), 2047.333333, 1e-3);
  for (index_t last : {index_t{127}, index_t{128}, index_t{129}, index_t{1023}, index_t{1024}, index_t{3000}}) {
    EXPECT_EQ(mean_of(last + 1, {last}), static_cast<double>(last));
    EXPECT_EQ(mean_of(last + 200, {last}), static_cast<double>(last));
    EXPECT_NEAR(mean_of(last + 200, {0, last}), static_cast<double>(last) / 2, 1e-4);
  }
}

TEST(Cases, A13_a_band_of_rows_without_keys_leaves_the_others_alone) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8, 16, 32});
    const auto keep =
        bools({1, 1, 6, 6}, [](index_t, index_t, index_t i, index_t j) { return i < 4 && i / 2 == j / 2; });
    const auto found = means<T>(1, 6, v, keep_mask(keep));
    expect_values(found.out, {1.5, 1.5, 6, 6, 0, 0});
    expect_values(found.lse, {std::log(2.0), std::log(2.0), std::log(2.0), std::log(2.0), -infinity, -infinity});
  });
}

TEST(Cases, A14_hidden_leading_keys_leave_the_mean_of_the_tail) {
  for_each_type([]<class T>(T) {
    for (index_t cut : {1, 16, 31, 32, 64, 127, 128, 129, 255, 256, 257, 440}) {
      tensor<bool, 1> drop({441});
      for (index_t j = 0; j < cut; ++j) drop(j) = true;
      const auto v = counted_values<T>(441);
      const double mean = static_cast<double>(cut + 440) / 2, lse = std::log(static_cast<double>(441 - cut));
      const std::vector<index_t> start{cut};
      for (auto const& found : {means<T>(1, 3, v, drop_mask(drop)), means<T>(1, 3, v, lengths{.key_start = start})}) {
        expect_values(found.out, {mean, mean, mean});
        expect_values(found.lse, {lse, lse, lse});
      }
    }
  });
}

TEST(Cases, B1_both_corners_can_be_named) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8});
    expect_values(means<T>(1, 2, v, causal{}, {.anchor = top_left}).out, {1, 1.5});
    expect_values(means<T>(1, 2, v, causal{}, {.anchor = bottom_right}).out, {7.0 / 3, 3.75});
    expect_values(means<T>(1, 2, v, causal{}).out, {7.0 / 3, 3.75});
    expect_values(means<T>(1, 2, v, causal{}, {.anchor = at_offset(1)}).out, {1.5, 7.0 / 3});
    const std::vector<index_t> offsets{2};
    expect_values(means<T>(1, 2, v, causal{}, {.anchor = at_offset(offsets)}).out, {7.0 / 3, 3.75});
  });
}

TEST(Cases, B3_the_diagonal_follows_the_true_lengths) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> v({2, 1, 6, 1});
    for (index_t i = 0; i < 12; ++i) v.data()[i] = static_cast<T>(not_a_number);
    for (index_t j = 0; j < 4; ++j) v(0, 0, j, 0) = static_cast<T>(static_cast<double>(1 << j));
    for (index_t j = 0; j < 2; ++j) v(1, 0, j, 0) = static_cast<T>(static_cast<double>(1 << j));
    const std::vector<index_t> valid{4, 2}, rows{1, 2};
    expect_values(means<T>(1, 2, v, causal{} & lengths{.key = valid}).out, {7.0 / 3, 3.75, 1, 1.5});
    expect_values(means<T>(1, 2, v, lengths{.key = valid} & causal{}).out, {7.0 / 3, 3.75, 1, 1.5});
    // One row in the first item: it stands at its last key.
    expect_values(means<T>(1, 2, v, lengths{.query = rows, .key = valid} & causal{}).out, {3.75, 0, 1, 1.5});
    expect_values(means<T>(1, 2, v, lengths{.key = valid} & causal{}, {.anchor = top_left}).out, {1, 1.5, 1, 1.5});
    // Left padding: positions still count from the start of the buffer.
    const std::vector<index_t> start{1, 0};
    expect_values(means<T>(1, 2, v, lengths{.key = valid, .key_start = start} & causal{}).out, {3, 14.0 / 3, 1, 1.5});
  });
}

TEST(Cases, B4_rows_before_the_first_key_are_empty) {
  for_each_type([]<class T>(T) {
    const auto found = means<T>(1, 4, values_of<T>({1, 3}), causal{});
    expect_values(found.out, {0, 0, 1, 2});
    expect_values(found.lse, {-infinity, -infinity, 0, std::log(2.0)});
    // Many rows before few keys: whole tiles see nothing.
    const auto tall = means<T>(1, 300, values_of<T>({1, 3}), causal{});
    for (index_t i = 0; i < 298; ++i) {
      ASSERT_EQ(static_cast<double>(tall.out(0, 0, i, 0)), 0);
      ASSERT_EQ(static_cast<double>(tall.lse(0, 0, i)), -infinity);
    }
    EXPECT_EQ(static_cast<double>(tall.out(0, 0, 298, 0)), 1);
    EXPECT_EQ(static_cast<double>(tall.out(0, 0, 299, 0)), 2);
  });
}

TEST(Cases, B8_offsets_of_any_size_do_not_overflow) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 3});
    for (index_t huge : {INT64_MAX, INT64_MAX - 1, INT64_MAX - 3, index_t{1} << 32, index_t{5}}) {
      expect_values(means<T>(1, 4, v, causal{}, {.anchor = at_offset(huge)}).out, {2, 2, 2, 2});
    }
    for (index_t huge : {INT64_MIN, INT64_MIN + 1, INT64_MIN + 3, -(index_t{1} << 32), index_t{-4}}) {
      const auto found = means<T>(1, 4, v, causal{}, {.anchor = at_offset(huge)});
      expect_values(found.out, {0, 0, 0, 0});
      expect_values(found.lse, {-infinity, -infinity, -infinity, -infinity});
    }
    expect_values(means<T>(1, 4, v, causal{}, {.anchor = at_offset(-3)}).out, {0, 0, 0, 1});
  });
}

TEST(Cases, F3_a_sequence_with_queries_and_no_keys) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> v({2, 1, 2, 1});
    v(0, 0, 0, 0) = v(0, 0, 1, 0) = static_cast<T>(not_a_number);
    v(1, 0, 0, 0) = static_cast<T>(1), v(1, 0, 1, 0) = static_cast<T>(3);
    const std::vector<index_t> keys{0, 2}, rows{2, 1};
    const auto found = means<T>(1, 2, v, lengths{.query = rows, .key = keys});
    expect_values(found.out, {0, 0, 2, 0});
    expect_values(found.lse, {-infinity, -infinity, std::log(2.0), -infinity});
  });
}

TEST(Cases, F14_new_tokens_are_causal_among_themselves_if_asked) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4, 8, 16});
    expect_values(means<T>(1, 2, v, causal{}).out, {3.75, 6.2});
    expect_values(means<T>(1, 2, v).out, {6.2, 6.2});
  });
}

TEST(Cases, G1_an_empty_row_is_zero_and_its_neighbour_is_right) {
  for_each_type([]<class T>(T) {
    const auto v = values_of<T>({1, 2, 4});
    const bool bits[] = {false, false, false, true, true, true};
    const auto check = [&](auto const& found) {
      expect_values(found.out, {0, 7.0 / 3});
      expect_values(found.lse, {-infinity, std::log(3.0)});
    };
    const auto second = keep_mask(tensor_view<bool const, 2>(bits, {2, 3}));
    check(means<T>(1, 2, v, second));
    check(means<T>(1, 2, v, second & no_mask{}));
    check(means<T>(1, 2, v, keep_mask(tensor_view<bool const, 2>(bits + 2, {2, 1}))));
    // Causal with a row at position -1, and a batch item of length 0.
    const auto found = means<T>(1, 2, v, causal{}, {.anchor = at_offset(-1)});
    expect_values(found.out, {0, 1});
    expect_values(found.lse, {-infinity, 0});
    const std::vector<index_t> none{0};
    const auto nothing = means<T>(1, 2, v, lengths{.key = none});
    expect_values(nothing.out, {0, 0});
    expect_values(nothing.lse, {-infinity, -infinity});
    tensor<T, 4> weights({1, 1, 2, 3});
    for (index_t i = 0; i < 6; ++i) weights.data()[i] = static_cast<T>(777);
    tensor<T, 4> out({1, 1, 2, 1});
    attention(tensor<T, 4>({1, 1, 2, 1}), tensor<T, 4>({1, 1, 3, 1}), v, into(out).weights(weights), second);
    expect_values(weights, {0, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  });
}

TEST(Cases, G2_the_first_blocks_may_be_all_hidden) {
  for_each_type([]<class T>(T) {
    const auto v = counted_values<T>(256);
    const auto from = [&](index_t first) {
      tensor<bool, 1> keep({256});
      for (index_t j = first; j < 256; ++j) keep(j) = true;
      return means<T>(1, 1, v, keep_mask(keep));
    };
    expect_values(from(192).out, {223.5});
    expect_values(from(255).out, {255});
    expect_values(from(128).out, {191.5});
    expect_values(from(255).lse, {0});
    // Causal together with a band, so that each row sees few keys far from the first.
    const index_t n = 300;
    const auto band = bools({1, 1, n, n}, [](index_t, index_t, index_t i, index_t j) { return j + 2 >= i; });
    const auto found = means<T>(1, n, counted_values<T>(n), causal{} & keep_mask(band));
    for (index_t i = 2; i < n; ++i) {
      ASSERT_NEAR(static_cast<double>(found.out(0, 0, i, 0)), static_cast<double>(i - 1),
                  tolerance<T>() * static_cast<double>(i));
    }
  });
}

TEST(Cases, G5_a_hidden_key_never_wins_over_a_low_score) {
  for_each_type([]<class T>(T) {
    const bool bits[] = {true, false};
    const auto v = values_of<T>({1, 100});
    for (double low : {-20000.0, -60000.0, 20000.0}) {
      const auto found = attend(values_of<T>({low, 0}), values_of<T>({1, 0}), v,
                                keep_mask(tensor_view<bool const, 1>(bits, {2})), {.scale = 1.0});
      expect_values(found.out, {1, 1});
    }
    // The same through a diagonal.
    expect_values(attend(values_of<T>({-20000, -20000}), values_of<T>({1, 0}), v, causal{}, {.scale = 1.0}).out,
                  {1, 100});
  });
}

}  // namespace
