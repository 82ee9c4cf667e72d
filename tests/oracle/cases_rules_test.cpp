// Public fault reports about several rules at once, packed sequences and sizes, with the value that is right.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(CasesRules, B12_B13_slopes_of_any_number_of_heads) {
  const auto expect = [](index_t heads, std::vector<double> const& right) {
    const std::vector<float> found = alibi_slopes(heads);
    ASSERT_EQ(found.size(), right.size());
    for (std::size_t head = 0; head < right.size(); ++head) EXPECT_NEAR(found[head], right[head], 1e-7) << head;
  };
  expect(1, {0.00390625});
  expect(6, {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125});
  expect(8, {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625});
  expect(12, {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625, 0.7071068, 0.3535534, 0.1767767,
              0.08838835});
}

/// Nothing has a size that a call could not say.
TEST(CasesRules, H4_sizes_beyond_two_to_the_31_do_not_wrap) {
  const float zero = 0;
  const auto everywhere = [&](index_t batch, index_t heads, index_t tokens, index_t dim) {
    return tensor_view<float const, 4>(&zero, {batch, heads, tokens, dim}, {0, 0, 0, 0});
  };
  const auto x = everywhere(20, 32, 2000, 64), y = everywhere(700, 700, 700, 64);
  const auto number = [](std::string const& text, std::string const& name) {
    const auto begin = text.find("\n" + name + ": ");
    return begin == std::string::npos ? -1.0 : std::stod(text.substr(begin + name.size() + 3));
  };
  const std::string said = explain(x, x, x), more = explain(y, y, y);
  EXPECT_EQ(number(said, "flops"), 20.0 * 32 * 2000 * 2000 * 2 * 128) << said;
  EXPECT_EQ(number(more, "flops"), 700.0 * 700 * 700 * 700 * 2 * 128) << more;
  EXPECT_EQ(number(said, "bytes"), 3.0 * 20 * 32 * 2000 * 64 * 4) << said;
  EXPECT_EQ(number(more, "bytes"), 3.0 * 700 * 700 * 700 * 64 * 4) << more;
  EXPECT_GE(number(said, "scratch"), 0) << said;
  EXPECT_LT(number(said, "scratch"), 1e9) << said;
}

TEST(CasesRules, I7_packed_sequences_of_more_rows_than_keys) {
  for_each_type([]<class T>(T) {
    const index_t rows[] = {0, 76, 110, 256};
    const auto q = pattern<T>(31, 1, {1, 1, 256, 32}, 3), k = pattern<T>(5, 20, {1, 1, 3, 32}, 3),
               v = pattern<T>(7, 30, {1, 1, 3, 32}, 3);
    tensor<T, 4> out({1, 1, 256, 32});
    for (index_t i = 0; i < out.size(); ++i) out.data()[i] = static_cast<T>(777);
    for (index_t item = 0; item < 3; ++item) {
      const index_t count = rows[item + 1] - rows[item];
      attention(tensor_view<T const, 2>(&q(0, 0, rows[item], 0), {count, 32}),
                tensor_view<T const, 2>(&k(0, 0, item, 0), {1, 32}),
                tensor_view<T const, 2>(&v(0, 0, item, 0), {1, 32}),
                tensor_view<T, 2>(&out(0, 0, rows[item], 0), {count, 32}), causal{});
    }
    // The same in one call: three documents, of which only the last row of each has a key before it.
    std::vector<index_t> row_ids;
    for (index_t item = 0; item < 3; ++item) {
      row_ids.insert(row_ids.end(), static_cast<std::size_t>(rows[item + 1] - rows[item] - 1), -1);
      row_ids.push_back(item);
    }
    const std::vector<index_t> key_ids = {0, 1, 2};
    const auto packed = attend(q, k, v, documents{.ids = key_ids, .query_ids = row_ids}).out;
    for (index_t i = 0; i < 256; ++i) {
      const index_t item = row_ids[static_cast<std::size_t>(i)];
      for (index_t d = 0; d < 32; ++d) {
        const double right = item < 0 ? 0.0 : static_cast<double>(v(0, 0, item, d));
        EXPECT_EQ(static_cast<double>(out(0, 0, i, d)), right) << i;
        EXPECT_EQ(static_cast<double>(packed(0, 0, i, d)), right) << i;
      }
    }
  });
}

TEST(CasesRules, I14_a_hidden_key_and_saturated_ones_under_a_cap) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> q({1, 1, 1, 1}), k({1, 1, 3, 1}), far({1, 1, 3, 1});
    q.data()[0] = static_cast<T>(2);
    k.data()[0] = static_cast<T>(3), k.data()[1] = static_cast<T>(0), k.data()[2] = static_cast<T>(-1);
    far.data()[0] = static_cast<T>(5000), far.data()[2] = static_cast<T>(-5000);
    const attention_options options{.scale = 1.0, .softcap = 1.5};
    const auto capped = [](double score) { return std::exp(1.5 * std::tanh(score / 1.5)); };
    const auto v = values_of<T>({1, 2, 4});
    const tensor<bool, 4> bits = bools({1, 1, 1, 3}, [](auto, auto, auto, index_t j) { return j != 1; });
    const double first = capped(6), last = capped(-2);
    expect_values(attend(q, k, v, keep_mask(bits), options).out, {(first + 4 * last) / (first + last)});
    const double high = std::exp(1.5), low = std::exp(-1.5);
    expect_values(attend(q, far, v, no_mask{}, options).out, {(high + 2 + 4 * low) / (high + 1 + low)});
  });
}

TEST(CasesRules, I15_lse_beside_the_output) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> q({1, 1, 1, 1}), k({1, 1, 2, 1});
    q.data()[0] = static_cast<T>(1), k.data()[0] = static_cast<T>(1), k.data()[1] = static_cast<T>(3);
    const auto found = attend(q, k, values_of<T>({5, 7}), no_mask{}, {.scale = 1.0});
    expect_values(found.out, {5 * 0.1192029 + 7 * 0.8807971}, 1e-6);
    expect_values(found.lse, {std::log(std::exp(1.0) + std::exp(3.0))});
  });
}

TEST(CasesRules, I18_the_most_negative_numbers_and_minus_infinity_together) {
  for_each_type([]<class T>(T) {
    const index_t n = 70;
    tensor<float, 2> terms({n, n});
    const float least = -(std::numeric_limits<float>::max)(), none = -std::numeric_limits<float>::infinity();
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) terms(i, j) = (i + j) % 3 == 0 ? none : (i + 2 * j) % 5 == 0 ? least : 0;
    }
    const auto found = means<T>(2, n, counted_values<T>(n), causal{} & bias(terms)).out;
    for (index_t i = 0; i < n; ++i) {
      double sum = 0, count = 0, least_sum = 0, least_count = 0;
      for (index_t j = 0; j <= i; ++j) {
        if (terms(i, j) == 0) sum += static_cast<double>(j), ++count;
        if (terms(i, j) == least) least_sum += static_cast<double>(j), ++least_count;
      }
      const double right = count > 0 ? sum / count : least_count > 0 ? least_sum / least_count : 0;
      EXPECT_NEAR(static_cast<double>(found(0, 1, i, 0)), right, tolerance<T>() * (1 + right)) << i;
    }
  });
}

TEST(CasesRules, I20_batch_items_have_the_bits_of_calls_of_their_own) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {64, 128, 256}) {
      const index_t rows = 33;
      auto q = random_tensor<T>({3, 8, rows, dim}, 1), k = random_tensor<T>({3, 1, rows, dim}, 2);
      const auto v = random_tensor<T>({3, 1, rows, dim}, 3);
      for (index_t d = 0; d < dim; ++d) {
        k(1, 0, 7, d) = static_cast<T>(30 * static_cast<double>(k(1, 0, 7, d)));
        q(1, 3, 9, d) = static_cast<T>(30 * static_cast<double>(q(1, 3, 9, d)));
      }
      const std::vector<float> slopes = alibi_slopes(8);
      const auto rule = causal{} & window{.left = 20} & alibi{.slopes = slopes};
      const auto whole = attend(q, k, v, rule);
      for (index_t b = 0; b < 3; ++b) {
        const auto item = [&](tensor<T, 4> const& of) {
          return tensor_view<T const, 4>(&of(b, 0, 0, 0), {1, of.extent(1), rows, dim});
        };
        const auto alone = attend(item(q), item(k), item(v), rule);
        const tensor_view<T const, 4> part = item(whole.out);
        for (index_t i = 0; i < alone.out.size(); ++i) {
          ASSERT_EQ(static_cast<double>(alone.out.data()[i]), static_cast<double>(part.data()[i])) << b << " " << i;
        }
      }
    }
  });
}

}  // namespace
