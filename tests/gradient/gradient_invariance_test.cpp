// What may not change a single bit of a gradient.
#include <gtest/gtest.h>

#include <vector>

#include "support/gradients.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Rows past their length, empty rows, hidden keys, groups, every kind of gradient, a loss on lse.
template <class T>
struct padded {
  index_t batch = 3, heads = 6, kv_heads = 2, rows = 130, keys = 190;
  tensor<T, 4> query = random_tensor<T>({3, 6, 130, 40}, 1), key = random_tensor<T>({3, 2, 190, 40}, 2),
               value = random_tensor<T>({3, 2, 190, 24}, 3), d_out = random_tensor<T>({3, 6, 130, 24}, 4);
  tensor<accumulate_of<T>, 3> d_lse{{3, 6, 130}};
  tensor<float, 4> terms = random_tensor<float>({1, 6, 1, 190}, 5), row_terms = random_tensor<float>({1, 1, 130, 1}, 6);
  tensor<float, 2> table{{8, 6}};
  std::vector<float> slopes = alibi_slopes(6), logits = {0, 1, -1, 2, 0, 1};
  std::vector<index_t> query_len{130, 77, 1}, key_len{190, 0, 77};

  padded() {
    random_source random(7);
    for (index_t i = 0; i < d_lse.size(); ++i) d_lse.data()[i] = static_cast<accumulate_of<T>>(random.normal());
    for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<float>(random.normal());
  }
  [[nodiscard]] auto rule() const {
    return causal{} & alibi{slopes} & bias(terms) & lengths{.query = query_len, .key = key_len} &
           relative_bias{.table = table} & bias(row_terms) & sink{logits};
  }
  [[nodiscard]] differentiated<T> run(attention_options const& options = {}) const {
    return differentiate(query, key, value, d_out, rule(), options, d_lse);
  }
};

TEST(GradientInvariance, ThreadsChangeNothing) {
  for_each_type([]<class T>(T) {
    const padded<T> given;
    const auto one = given.run({.threads = 1});
    for (int threads : {0, 2, 3, 7}) {
      EXPECT_TRUE(same_gradients(one, given.run({.threads = threads}))) << threads;
    }
    // One head: rows and keys are divided.
    const auto q = random_tensor<T>({1, 1, 700, 64}, 10), k = random_tensor<T>({1, 1, 500, 64}, 11);
    const auto lone = differentiate(q, k, k, q, no_mask{}, {.threads = 1});
    for (int threads : {2, 3, 7}) {
      EXPECT_TRUE(same_gradients(lone, differentiate(q, k, k, q, no_mask{}, {.threads = threads}))) << threads;
    }
  });
}

TEST(GradientInvariance, WhatIsHiddenChangesNothing) {
  for_each_type([]<class T>(T) {
    const padded<T> clean;
    const auto right = clean.run();
    for (double garbage : {not_a_number, infinity, -infinity}) {
      padded<T> soiled;
      const auto fill_row = [&](tensor<T, 4>& x, index_t b, index_t row) {
        for (index_t h = 0; h < x.extent(1); ++h) {
          for (index_t d = 0; d < x.extent(3); ++d) x(b, h, row, d) = static_cast<T>(garbage);
        }
      };
      for (index_t b = 0; b < soiled.batch; ++b) {
        const std::size_t item = static_cast<std::size_t>(b);
        for (index_t i = soiled.query_len[item]; i < soiled.rows; ++i) {
          fill_row(soiled.query, b, i), fill_row(soiled.d_out, b, i);
        }
        for (index_t j = soiled.key_len[item]; j < soiled.keys; ++j)
          fill_row(soiled.key, b, j), fill_row(soiled.value, b, j);
      }
      // Item 1 sees no key: the gradients of its out are of something that is 0.
      for (index_t i = 0; i < soiled.rows; ++i) fill_row(soiled.d_out, 1, i);
      auto kept = attend(soiled.query, soiled.key, soiled.value, soiled.rule());
      for (index_t b = 0; b < soiled.batch; ++b) {
        for (index_t i = soiled.query_len[static_cast<std::size_t>(b)]; i < soiled.rows; ++i) {
          fill_row(kept.out, b, i);
          for (index_t h = 0; h < soiled.heads; ++h) kept.lse(b, h, i) = static_cast<accumulate_of<T>>(garbage);
        }
      }
      const auto found = differentiate_saved(soiled.query, soiled.key, soiled.value, kept, soiled.d_out, soiled.rule(),
                                             {}, soiled.d_lse);
      EXPECT_TRUE(same_gradients(right, found)) << garbage;
    }
  });
}

/// In the middle of tiles that others see.
TEST(GradientInvariance, HiddenKeysAndEmptyRowsAmongOthersChangeNothing) {
  for_each_type([]<class T>(T) {
    auto q = random_tensor<T>({1, 2, 70, 17}, 1), k = random_tensor<T>({1, 2, 90, 17}, 2),
         v = random_tensor<T>({1, 2, 90, 20}, 3), d_out = random_tensor<T>({1, 2, 70, 20}, 4);
    const auto keep = bools(
        {1, 1, 70, 90}, [](auto, auto, index_t i, index_t j) { return i % 7 != 3 && j % 5 != 2 && (i + j) % 3 != 0; });
    const auto right = differentiate(q, k, v, d_out, keep_mask(keep) & causal{});
    for (double garbage : {not_a_number, infinity}) {
      const auto fill_row = [&](tensor<T, 4>& x, index_t row) {
        for (index_t h = 0; h < 2; ++h) {
          for (index_t d = 0; d < x.extent(3); ++d) x(0, h, row, d) = static_cast<T>(garbage);
        }
      };
      for (index_t j = 2; j < 90; j += 5) fill_row(k, j), fill_row(v, j);
      for (index_t i = 3; i < 70; i += 7) fill_row(d_out, i);
      auto kept = attend(q, k, v, keep_mask(keep) & causal{});
      for (index_t i = 3; i < 70; i += 7) {
        fill_row(kept.out, i);
        for (index_t h = 0; h < 2; ++h) kept.lse(0, h, i) = static_cast<accumulate_of<T>>(garbage);
      }
      EXPECT_TRUE(same_gradients(right, differentiate_saved(q, k, v, kept, d_out, keep_mask(keep) & causal{})))
          << garbage;
    }
  });
}

TEST(GradientInvariance, BatchItemsAndGroupsDoNotKnowOfEachOther) {
  for_each_type([]<class T>(T) {
    const auto q = random_tensor<T>({3, 8, 37, 20}, 1), k = random_tensor<T>({3, 2, 150, 20}, 2),
               v = random_tensor<T>({3, 2, 150, 9}, 3), d_out = random_tensor<T>({3, 8, 37, 9}, 4);
    const auto whole = differentiate(q, k, v, d_out, causal{});
    const auto part = [](tensor<T, 4> const& x, index_t b, index_t first, index_t count) {
      return tensor_view<T const, 4>(&x(b, first, 0, 0), {1, count, x.extent(2), x.extent(3)});
    };
    for (index_t b = 0; b < 3; ++b) {
      for (index_t kv_head = 0; kv_head < 2; ++kv_head) {
        const auto alone = differentiate(part(q, b, 4 * kv_head, 4), part(k, b, kv_head, 1), part(v, b, kv_head, 1),
                                         part(d_out, b, 4 * kv_head, 4), causal{});
        EXPECT_TRUE(same_bits(part(whole.dq, b, 4 * kv_head, 4), tensor_view<T const, 4>(alone.dq.view())));
        EXPECT_TRUE(same_bits(part(whole.dk, b, kv_head, 1), tensor_view<T const, 4>(alone.dk.view())));
        EXPECT_TRUE(same_bits(part(whole.dv, b, kv_head, 1), tensor_view<T const, 4>(alone.dv.view())));
      }
    }
  });
}

TEST(GradientInvariance, GradientsOneByOneAreThoseOfAllTogether) {
  for_each_type([]<class T>(T) {
    const padded<T> given;
    const auto all = given.run();
    const auto kept = attend(given.query, given.key, given.value, given.rule());
    const auto with_only = [&](auto const& choose) {
      differentiated<T> found = stale_gradients<T>(given.query, given.key, given.value, given.rule());
      const auto list = [](auto& numbers) {
        using Real = accumulate_of<T>;
        return tensor_view<Real, 1>(numbers.data(), {static_cast<index_t>(numbers.size())});
      };
      attention_backward(given.query, given.key, given.value, saved(kept.out, kept.lse), given.d_out,
                         choose(found, list).lse(given.d_lse), given.rule());
      return found;
    };
    const auto none = gradients(nullptr, nullptr, nullptr);
    EXPECT_TRUE(same_bits(all.dq, with_only([](auto& f, auto) { return gradients(f.dq, nullptr, nullptr); }).dq));
    EXPECT_TRUE(same_bits(all.dk, with_only([](auto& f, auto) { return gradients(nullptr, f.dk, nullptr); }).dk));
    EXPECT_TRUE(same_bits(all.dv, with_only([](auto& f, auto) { return gradients(nullptr, nullptr, f.dv); }).dv));
    EXPECT_TRUE(same_bits(all.biases[0], with_only([&](auto& f, auto) { return none.bias(f.biases[0]); }).biases[0]));
    EXPECT_TRUE(same_bits(all.biases[1],
                          with_only([&](auto& f, auto) { return none.bias(nullptr).bias(f.biases[1]); }).biases[1]));
    EXPECT_TRUE(same_bits(all.tables[0], with_only([&](auto& f, auto) { return none.table(f.tables[0]); }).tables[0]));
    EXPECT_EQ(all.sinks[0], with_only([&](auto& f, auto list) { return none.sink(list(f.sinks[0])); }).sinks[0]);
    EXPECT_EQ(all.slopes[0], with_only([&](auto& f, auto list) { return none.slopes(list(f.slopes[0])); }).slopes[0]);
  });
}

}  // namespace
