// Public fault reports once more, at the sizes of decoding: few query rows, which run on kernels of their own; rows of
// K and V that fill vectors; keys in several splits. The right values are those of the reports.
#include <gtest/gtest.h>

#include <limits>

#include "heed/reference/forward.hpp"
#include "heed/view/layout.hpp"
#include "support/cases.hpp"
#include "support/guarded_memory.hpp"
#include "support/judge.hpp"
#include "support/paths.hpp"
#include "support/stored.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr index_t wide = 64;  // a head dimension of whole vectors, whose rows are read where they lie

/// value(head, key) in all columns of V; zero logits.
template <class T, class Value>
tensor<T, 4> wide_values(index_t batch, index_t heads, index_t keys, Value const& value) {
  tensor<T, 4> filled({batch, heads, keys, wide});
  for (index_t i = 0; i < filled.size(); ++i) {
    const index_t row = i / wide;
    filled.data()[i] = static_cast<T>(static_cast<double>(value(row / keys, row % keys)));
  }
  return filled;
}

template <class T, class Rule = no_mask>
attended<T> wide_means(index_t heads, index_t rows, tensor<T, 4> const& value, Rule const& rule = {},
                       attention_options const& options = {}) {
  const tensor<T, 4> query({value.extent(0), heads, rows, wide});
  const tensor<T, 4> key({value.extent(0), value.extent(1), value.extent(2), wide});
  EXPECT_TRUE(is_decoded(explain(query, key, value, rule, options)));
  return attend(query, key, value, rule, options);
}

/// One number for each row, in every column of it.
template <class T>
void expect_rows(tensor<T, 4> const& out, std::vector<double> const& expected) {
  const index_t columns = out.extent(3);
  ASSERT_EQ(out.size(), static_cast<index_t>(expected.size()) * columns);
  for (index_t i = 0; i < out.size(); ++i) {
    const double right = expected[static_cast<std::size_t>(i / columns)], got = static_cast<double>(out.data()[i]);
    if (std::isnan(right)) {
      ASSERT_TRUE(std::isnan(got)) << "row " << i / columns << " column " << i % columns << " is " << got;
    } else if (std::isinf(right)) {
      ASSERT_EQ(got, right) << "row " << i / columns << " column " << i % columns;
    } else {
      ASSERT_NEAR(got, right, tolerance<T>() * (1 + std::fabs(right)))
          << "row " << i / columns << " column " << i % columns;
    }
  }
}

/// A query and keys whose score is first(query) * first(key): scale 1, all other columns 0.
template <class T>
tensor<T, 4> first_column(std::vector<double> const& numbers) {
  tensor<T, 4> filled({1, 1, static_cast<index_t>(numbers.size()), wide});
  for (std::size_t i = 0; i < numbers.size(); ++i) filled.data()[i * wide] = static_cast<T>(numbers[i]);
  return filled;
}

TEST(CasesFewRows, A12_C3_G2_masks_of_each_head_reach_every_split) {
  for_each_type([]<class T>(T) {
    const index_t keys = 5000;
    const auto v = wide_values<T>(1, 2, keys, [&](index_t head, index_t j) { return (head * 7 + j) % 128; });
    const std::vector<index_t> kept[4] = {{511, 512, 599}, {0, 2047, 4095}, {1023, 1024, 4999}, {4999}};
    const auto keep = bools({1, 4, 1, keys}, [&](index_t, index_t h, index_t, index_t j) {
      for (index_t one : kept[h]) {
        if (j == one) return true;
      }
      return false;
    });
    std::vector<double> expected, lse;
    for (index_t h = 0; h < 4; ++h) {
      double sum = 0;
      for (index_t j : kept[h]) sum += static_cast<double>(v(0, h / 2, j, 0));
      expected.push_back(sum / static_cast<double>(kept[h].size()));
      lse.push_back(std::log(static_cast<double>(kept[h].size())));
    }
    for (int threads : {1, 3, 7}) {
      const auto found = wide_means<T>(4, 1, v, keep_mask(keep), {.threads = threads});
      expect_rows(found.out, expected);
      expect_values(found.lse, lse);
    }
  });
}

TEST(CasesFewRows, A14_hidden_leading_keys_and_splits) {
  for_each_type([]<class T>(T) {
    const index_t keys = 4500;
    const auto v = wide_values<T>(1, 1, keys, [](index_t, index_t j) { return j % 2; });
    for (index_t cut : {1, 127, 128, 1023, 1024, 1025, 2048, 4096, 4499}) {
      tensor<bool, 1> drop({keys});
      for (index_t j = 0; j < cut; ++j) drop(j) = true;
      const double kept = static_cast<double>(keys - cut), odd = static_cast<double>(keys / 2 - cut / 2);
      const std::vector<index_t> start{cut};
      for (int threads : {1, 3}) {
        const auto check = [&](attended<T> const& found) {
          expect_rows(found.out, std::vector<double>(3, odd / kept));
          expect_values(found.lse, std::vector<double>(3, std::log(kept)));
        };
        check(wide_means<T>(1, 3, v, drop_mask(drop), {.threads = threads}));
        check(wide_means<T>(1, 3, v, lengths{.key_start = start}, {.threads = threads}));
      }
    }
  });
}

TEST(CasesFewRows, B3_F14_the_diagonal_follows_the_true_lengths) {
  for_each_type([]<class T>(T) {
    const index_t buffer = 4096;
    const std::vector<index_t> valid{3001, 1025};
    // 1 for the last key that is there, 0 before, garbage behind.
    const auto v = wide_values<T>(2, 1, buffer, [&](index_t batch, index_t j) {
      const index_t last = valid[static_cast<std::size_t>(batch)] - 1;
      return j < last ? 0.0 : j == last ? 64.0 : not_a_number;
    });
    for (int threads : {1, 3, 7}) {
      const auto causal_rows = wide_means<T>(1, 2, v, causal{} & lengths{.key = valid}, {.threads = threads});
      expect_rows(causal_rows.out, {0, 64.0 / 3001, 0, 64.0 / 1025});
      expect_values(causal_rows.lse, {std::log(3000.0), std::log(3001.0), std::log(1024.0), std::log(1025.0)});
      const auto all = wide_means<T>(1, 2, v, lengths{.key = valid}, {.threads = threads});
      expect_rows(all.out, {64.0 / 3001, 64.0 / 3001, 64.0 / 1025, 64.0 / 1025});
    }
    expect_rows(
        wide_means<T>(1, 4, wide_values<T>(1, 1, 2, [](index_t, index_t j) { return 1 + 2 * j; }), causal{}).out,
        {0, 0, 1, 2});  // B4
  });
}

TEST(CasesFewRows, C1_C4_groups_read_their_own_head_and_are_causal_row_by_row) {
  for_each_type([]<class T>(T) {
    const auto heads = wide_values<T>(1, 2, 1, [](index_t head, index_t) { return head + 1; });
    expect_rows(wide_means<T>(4, 1, heads).out, {1, 1, 2, 2});
    const auto five = wide_values<T>(1, 1, 5, [](index_t, index_t j) { return 1 << j; });
    expect_rows(wide_means<T>(2, 2, five, causal{}).out, {3.75, 6.2, 3.75, 6.2});
    std::vector<double> expected;  // many heads of a group take turns
    for (index_t h = 0; h < 40; ++h) expected.insert(expected.end(), {7.0 / 3, 3.75, 6.2});
    expect_rows(wide_means<T>(4, 3, five, causal{}).out, {expected.begin(), expected.begin() + 12});
    expect_rows(wide_means<T>(40, 3, five, causal{}).out, expected);
    // Each head of two such groups sees one key of its own.
    const auto v = wide_values<T>(1, 2, 40, [](index_t head, index_t j) { return 64 * head + j; });
    const auto keep = bools({1, 80, 1, 40}, [](index_t, index_t h, index_t, index_t j) { return h % 40 == j; });
    expected.clear();
    for (index_t h = 0; h < 80; ++h) expected.insert(expected.end(), 2, static_cast<double>(h / 40 * 64 + h % 40));
    expect_rows(wide_means<T>(80, 2, v, keep_mask(keep)).out, expected);
  });
}

TEST(CasesFewRows, I4_I6_forward_of_grouped_heads_and_other_value_dims) {
  for_each_type([]<class T>(T) {
    const auto q = pattern<T>(31, 1, {1, 4, 2, 3}), k = pattern<T>(5, 20, {1, 2, 3, 3}),
               v = pattern<T>(7, 30, {1, 2, 3, 3});
    EXPECT_TRUE(is_decoded(explain(q, k, v, {.scale = 2.0})));
    EXPECT_NEAR(s7(attend(q, k, v, no_mask{}, {.scale = 2.0}).out), 3.02544587, tolerance<T>() * 50 + 5e-9);
    const auto wide_q = pattern<T>(31, 1, {1, 1, 3, 128}), wide_k = pattern<T>(5, 20, {1, 1, 4, 128}),
               wide_v = pattern<T>(7, 30, {1, 1, 4, 96});
    EXPECT_TRUE(is_decoded(explain(wide_q, wide_k, wide_v)));
    EXPECT_NEAR(s7(attend(wide_q, wide_k, wide_v).out), 3.95560041, tolerance<T>() * 100 + 5e-9);
  });
}

TEST(CasesFewRows, D13_scores_of_half_live_in_float) {
  for (double size : {32.0, 256.0}) {
    tensor<half, 4> q({1, 1, 2, 128}), k({1, 1, 2, 128});
    for (index_t d = 0; d < 128; ++d) {
      q(0, 0, 0, d) = q(0, 0, 1, d) = k(0, 0, 0, d) = half(size);
      k(0, 0, 1, d) = half(-size);
    }
    const auto v = wide_values<half>(1, 1, 2, [](index_t, index_t j) { return j + 1; });
    EXPECT_TRUE(is_decoded(explain(q, k, v)));
    const auto found = attend(q, k, v);
    expect_rows(found.out, {1, 1});
    const double logit = size * size * std::sqrt(128.0);
    EXPECT_NEAR(found.lse(0, 0, 1), logit, logit * 1e-6);
  }
}

/// The rows of E1 do not know of each other: four of them and the fifth are two calls of few rows.
TEST(CasesFewRows, E1_inner_strides_of_any_kind) {
  for_each_type([]<class T>(T) {
    for (layout kind : output_layouts) {
      SCOPED_TRACE(name_of(kind));
      stored<T> q({2, 3, 5, 7}, kind), k({2, 3, 6, 7}, kind), v({2, 3, 6, 4}, kind), out({2, 3, 5, 4}, kind);
      q.fill_from(pattern<double>(31, 1, {2, 3, 5, 7}));
      k.fill_from(pattern<double>(5, 20, {2, 3, 6, 7}));
      v.fill_from(pattern<double>(7, 30, {2, 3, 6, 4}));
      tensor<accumulate_of<T>, 3> lse({2, 3, 5});
      const auto rows = [](auto const& view, index_t first, index_t count) {
        auto const [batch, heads] = std::pair(view.extent(0), view.extent(1));
        return std::remove_cvref_t<decltype(view)>(view.data() + first * view.stride(2),
                                                   {batch, heads, count, view.extent(3)},
                                                   {view.stride(0), view.stride(1), view.stride(2), view.stride(3)});
      };
      const auto run = [&](auto const& rule, index_t offset) {
        for (const auto& [first, count] : {std::pair<index_t, index_t>(0, 4), {4, 1}}) {
          const auto some = rows(q.view(), first, count);
          const tensor_view<accumulate_of<T>, 3> some_lse(lse.data() + first, {2, 3, count}, {15, 5, 1});
          const attention_options options{.anchor = at_offset(offset + first)};
          EXPECT_TRUE(is_decoded(explain(some, k.view(), v.view(), rule, options)));
          attention(some, k.view(), v.view(), into(rows(out.view(), first, count)).lse(some_lse), rule, options);
        }
      };
      run(no_mask{}, 0);
      EXPECT_NEAR(s7(out.view()), 2.56222726, tolerance<T>() * 200 + 5e-9);
      EXPECT_NEAR(s7(lse), 207.42406, 1e-4);
      EXPECT_NEAR(static_cast<double>(out.view()(0, 0, 0, 1)), 0.1138299, tolerance<T>() + 5e-8);
      EXPECT_NEAR(static_cast<double>(out.view()(1, 2, 4, 3)), -0.1138005, tolerance<T>() + 5e-8);
      run(causal{}, 1);
      EXPECT_NEAR(s7(out.view()), -1.06359697, tolerance<T>() * 200 + 5e-9);
      EXPECT_NEAR(s7(lse), 149.809613, 1e-4);
      EXPECT_TRUE(out.gaps_intact());
    }
  });
}

TEST(CasesFewRows, E6_J7_gaps_between_output_rows_stay_whatever_the_splits) {
  for_each_type([]<class T>(T) {
    for (index_t keys : {257, 1500, 2500}) {  // one, two and three splits
      const auto q = pattern<T>(31, 1, {3, 5, 1, 32}, 2), k = pattern<T>(5, 20, {3, 5, keys, 32}, 2),
                 v = pattern<T>(7, 30, {3, 5, keys, 28});
      const auto expected = attend(q, k, v, no_mask{}, {.threads = 1});
      for (int threads : {1, 2, 3, 7}) {
        stored<T> out({3, 5, 1, 28}, layout::padded_rows);
        stored<accumulate_of<T>> lse({3, 5, 1, 1}, layout::contiguous);
        const attention_options options{.threads = threads};
        if (active_isa() != "v1") {
          EXPECT_EQ(number_of(explain(q, k, v, options), "splits"), static_cast<double>((keys + 1023) / 1024));
        }
        attention(q, k, v, into(out.view()).lse(lse.lse3()), options);
        EXPECT_TRUE(same_bits(expected.out.view(), out.view()));
        EXPECT_TRUE(same_bits(expected.lse.view(), lse.lse3()));
        EXPECT_TRUE(out.gaps_intact());
      }
    }
  });
}

TEST(CasesFewRows, G4_G5_low_scores_behind_masks_and_in_other_splits) {
  const auto check = []<class T>(T) {
    const auto two = wide_values<T>(1, 1, 2, [](index_t, index_t j) { return 1 - j; });
    const auto found = attend(first_column<T>({1}), first_column<T>({-60000, -60001}), two, no_mask{}, {.scale = 1.0});
    expect_rows(found.out, {1 / (1 + std::exp(-1.0))});
    EXPECT_NEAR(static_cast<double>(found.lse(0, 0, 0)), -60000 + std::log1p(std::exp(-1.0)), 0.002);
    for (double low : {-1e30, -3e38}) {
      const index_t keys = 2500;
      const std::vector<double> scores(static_cast<std::size_t>(keys), low);
      const auto v = wide_values<T>(1, 1, keys, [](index_t, index_t j) { return j % 2; });
      for (index_t cut : {0, 1, 1024, 2048, 2100}) {
        tensor<bool, 1> drop({keys});
        for (index_t j = 0; j < cut; ++j) drop(j) = true;
        for (int threads : {1, 3}) {
          const double mean = static_cast<double>(keys / 2 - cut / 2) / static_cast<double>(keys - cut);
          expect_rows(attend(first_column<T>({1, 1}), first_column<T>(scores), v, drop_mask(drop),
                             {.scale = 1.0, .threads = threads})
                          .out,
                      {mean, mean});
        }
      }
    }
  };
  check(float{});
  check(double{});
  for_each_type([]<class T>(T) {  // G5: hidden keys, splits away, with scores far above the only visible one
    std::vector<double> scores(2500, 0);
    scores[0] = 1;
    tensor<bool, 1> keep({2500});
    keep(0) = true;
    const auto v = wide_values<T>(1, 1, 2500, [](index_t, index_t j) { return j == 0 ? 1 : 100; });
    expect_rows(
        attend(first_column<T>({-20000, 0}), first_column<T>(scores), v, keep_mask(keep), {.scale = 1.0, .threads = 3})
            .out,
        {1, 1});
  });
}

TEST(CasesFewRows, G11_G12_what_is_not_finite_stays_in_the_rows_that_see_it) {
  for_each_type([]<class T>(T) {
    const index_t keys = 2500;
    const auto zeros = std::vector<double>(static_cast<std::size_t>(keys), 0);
    const auto v = wide_values<T>(1, 1, keys, [](index_t, index_t) { return 1; });
    for (index_t place : {3, 1500, 2498, 2499}) {  // the row before the last one sees all but the last key
      const bool both = place < 2499;
      for (int threads : {1, 3}) {
        const attention_options options{.scale = 1.0, .threads = threads};
        for (double bad : {infinity, not_a_number}) {
          auto k = zeros;
          k[static_cast<std::size_t>(place)] = bad;
          const auto found = attend(first_column<T>({1, 1}), first_column<T>(k), v, causal{}, options);
          expect_rows(found.out, {both ? not_a_number : 1, not_a_number});
          expect_values(found.lse, {both ? not_a_number : std::log(2499.0), not_a_number});
        }
        auto k = zeros;  // a score of -inf weighs nothing, also where it is the only one of its split
        k[static_cast<std::size_t>(place)] = -infinity;
        expect_rows(attend(first_column<T>({1, 1}), first_column<T>(k), v, causal{}, options).out, {1, 1});
        auto bad_v = v;
        bad_v(0, 0, place, 5) = static_cast<T>(infinity);
        const auto found = attend(first_column<T>({1, 1}), first_column<T>(zeros), bad_v, causal{}, options);
        for (index_t row = 0; row < 2; ++row) {
          for (index_t d = 0; d < wide; ++d) {
            const bool reached = d == 5 && (both || row == 1);
            ASSERT_NEAR(static_cast<double>(found.out(0, 0, row, d)) == infinity, reached, 0) << row << ", " << d;
            if (!reached) {
              ASSERT_NEAR(static_cast<double>(found.out(0, 0, row, d)), 1, tolerance<T>()) << row << ", " << d;
            }
          }
        }
      }
    }
    expect_rows(attend(first_column<T>({not_a_number, 0}), first_column<T>(zeros), v, no_mask{}, {.scale = 1.0}).out,
                {not_a_number, 1});
  });
}

/// The best score comes last, or first: what the other splits hold weighs nothing, and its sums may have overflowed.
TEST(CasesFewRows, G12_L8_one_split_outweighs_the_others) {
  for_each_type([]<class T>(T) {
    constexpr double huge = std::is_same_v<T, half> ? 65000 : 3e38;
    for (std::size_t best : {0u, 1600u, 2999u}) {
      std::vector<double> scores(3000, -150);
      scores[best] = 150;
      const auto v = wide_values<T>(
          1, 1, 3000, [&](index_t, index_t j) { return static_cast<std::size_t>(j) == best ? 2.0 : huge; });
      for (int threads : {1, 3}) {
        expect_rows(
            attend(first_column<T>({1}), first_column<T>(scores), v, no_mask{}, {.scale = 1.0, .threads = threads}).out,
            {2});
      }
    }
  });
  // Weights that are subnormal count as 0; small ones count (G17).
  const auto v = wide_values<float>(1, 1, 2, [](index_t, index_t j) { return static_cast<double>(j) * 1e38; });
  const auto weighed = [&](double score) {
    return static_cast<double>(
        attend(first_column<float>({1}), first_column<float>({0, score}), v, no_mask{}, {.scale = 1.0})
            .out(0, 0, 0, 63));
  };
  EXPECT_TRUE(weighed(-95) == 0 || std::fabs(weighed(-95) - 5.521e-4) < 1e-6) << weighed(-95);
  EXPECT_NEAR(weighed(-80) / (1e38 * std::exp(-80.0)), 1, 1e-5);
}

TEST(CasesFewRows, G13_long_rows_are_summed_in_float) {
  for_each_type([]<class T>(T) {
    for (index_t keys : {2048, 4096, 10000}) {
      const auto found = wide_means<T>(2, 1, wide_values<T>(1, 1, keys, [](index_t, index_t) { return 1; }));
      for (index_t i = 0; i < found.out.size(); ++i) ASSERT_EQ(static_cast<double>(found.out.data()[i]), 1) << keys;
    }
  });
}

TEST(CasesFewRows, G15_bfloat16_is_judged_on_its_rounded_inputs) {
  const axes<4> queries(65, 1, 1, 16), keys(65, 1, 65, 16);
  std::vector<index_t> seen;
  for (index_t b = 0; b < 65; ++b) seen.push_back(b + 1);
  const auto q = pattern<bfloat16>(31, 1, queries, 5), k = pattern<bfloat16>(5, 20, keys, 5),
             v = pattern<bfloat16>(7, 30, keys, 5);
  EXPECT_TRUE(is_decoded(explain(q, k, v, lengths{.key = seen})));
  const auto exact = [](tensor<bfloat16, 4> const& x) {
    tensor<double, 4> exactly({x.extent(0), x.extent(1), x.extent(2), x.extent(3)});
    for (index_t i = 0; i < x.size(); ++i) exactly.data()[i] = static_cast<double>(x.data()[i]);
    return exactly;
  };
  const verdict<float> judge(exact(q), exact(k), exact(v), lengths{.key = seen}, {}, strictness::plain_loop);
  EXPECT_TRUE(judge.out(attend(q, k, v, lengths{.key = seen}).out.view()));
}

TEST(CasesFewRows, J5_addresses_are_aligned_for_the_element_only) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {7, 16, 64}) {
      const auto q = pattern<T>(31, 1, {2, 3, 2, dim}), k = pattern<T>(5, 20, {2, 3, 150, dim}),
                 v = pattern<T>(7, 30, {2, 3, 150, dim});
      EXPECT_TRUE(is_decoded(explain(q, k, v, causal{})));
      const auto aligned = attend(q, k, v, causal{});
      for (index_t shift = 1; shift < 8; ++shift) {
        const auto shifted = [&](tensor<T, 4> const& from, std::vector<T>& memory, index_t by) {
          memory.assign(static_cast<std::size_t>(from.size() + by), static_cast<T>(not_a_number));
          for (index_t i = 0; i < from.size(); ++i) memory[static_cast<std::size_t>(i + by)] = from.data()[i];
          return tensor_view<T, 4>(memory.data() + by, {2, 3, from.extent(2), dim});
        };
        std::vector<T> q_memory, k_memory, v_memory, out_memory;
        const auto out = shifted(aligned.out, out_memory, shift);
        attention(shifted(q, q_memory, shift), shifted(k, k_memory, 8 - shift), shifted(v, v_memory, shift), out,
                  causal{});
        EXPECT_TRUE(same_bits(aligned.out.view(), tensor_view<T const, 4>(out))) << dim << " " << shift;
      }
    }
  });
}

TEST(CasesFewRows, J9_one_row_over_a_long_cache_is_right_and_writes_nowhere_else) {
  const auto q = pattern<float>(31, 1, {1, 32, 1, 128}), k = pattern<float>(5, 20, {1, 8, 2048, 128}),
             v = pattern<float>(7, 30, {1, 8, 2048, 128});
  const auto expected = reference::solve(q, k, v);
  for (int threads : {1, 2, 3, 7, 16, 31, 96}) {
    stored<float> out({1, 32, 1, 128}, layout::contiguous), lse({1, 32, 1, 1}, layout::contiguous);
    EXPECT_TRUE(is_decoded(explain(q, k, v, {.threads = threads})));
    attention(q, k, v, into(out.view()).lse(lse.lse3()), {.threads = threads});
    for (index_t h = 0; h < 32; ++h) {
      for (index_t d = 0; d < 128; ++d) ASSERT_NEAR(out.view()(0, h, 0, d), expected.out(0, h, 0, d), 2e-6);
      ASSERT_NEAR(lse.view()(0, h, 0, 0), expected.lse(0, h, 0), 1e-5);
    }
  }
}

TEST(CasesFewRows, K3_repeats_give_the_same_bits) {
  const auto q = pattern<float>(31, 1, {1, 8, 1, 64}, 2), k = pattern<float>(5, 20, {1, 1, 5000, 64}, 2);
  EXPECT_TRUE(is_decoded(explain(q, k, k, causal{})));
  const auto first = attend(q, k, k, causal{});
  for (int turn = 0; turn < 20; ++turn) {
    const auto again = attend(q, k, k, causal{}, {.threads = turn % 5});
    ASSERT_TRUE(same_bits(first.out, again.out)) << turn;
    ASSERT_TRUE(same_bits(first.lse, again.lse)) << turn;
  }
}

}  // namespace
