// Dropout: the mask that a call has used, read off its output, is that of dropout_keeps, whatever else the call is
// given; and what must not notice dropout does not.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "support/cases.hpp"
#include "support/judge.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Values whose row j is that of the unit matrix: with logits of 0, column j of `out` is the weight of key j.
template <class T>
tensor<T, 4> unit_values(index_t batch, index_t heads, index_t keys) {
  tensor<T, 4> value({batch, heads, keys, keys});
  for (index_t b = 0; b < batch; ++b) {
    for (index_t h = 0; h < heads; ++h) {
      for (index_t j = 0; j < keys; ++j) value(b, h, j, j) = static_cast<T>(1.0f);
    }
  }
  return value;
}

using visible = std::function<bool(position const& at)>;

/// Every weight in `out` is 1 / (visible keys of the row) / (1 - p), or 0, as dropout_keeps says. Returns the share of
/// the visible ones that were kept.
template <class Out>
double expect_mask(Out const& out, dropout const& drop, visible const& sees) {
  using T = typename Out::value_type;
  index_t kept = 0, all = 0;
  for (index_t b = 0; b < out.extent(0); ++b) {
    for (index_t h = 0; h < out.extent(1); ++h) {
      for (index_t i = 0; i < out.extent(2); ++i) {
        const index_t keys = out.extent(3);
        index_t seen = 0;
        for (index_t j = 0; j < keys; ++j) seen += sees({b, h, i, j, keys - out.extent(2)});
        for (index_t j = 0; j < keys; ++j) {
          const bool there = sees({b, h, i, j, keys - out.extent(2)});
          const bool keep = there && dropout_keeps(drop, b, h, i, j);
          const double right = keep ? 1 / static_cast<double>(seen) / (1 - drop.p) : 0;
          const double got = static_cast<double>(out(b, h, i, j));
          if ((right == 0) != (got == 0) || std::fabs(got - right) > tolerance<T>() * right) {
            ADD_FAILURE() << b << ", " << h << ", " << i << ", " << j << " is " << got << ", must be " << right;
            return 0;
          }
          kept += keep, all += there;
        }
      }
    }
  }
  return static_cast<double>(kept) / static_cast<double>(all);
}

template <class T, class Rule = no_mask>
double expect_mask_of_call(
    axes<4> extents, index_t kv_heads, attention_options const& options, Rule const& rule = {},
    visible const& sees = [](position const&) { return true; }) {
  const index_t keys = extents[3];
  const tensor<T, 4> query({extents[0], extents[1], extents[2], 3}), key({extents[0], kv_heads, keys, 3});
  const tensor<T, 4> value = unit_values<T>(extents[0], kv_heads, keys);
  tensor<T, 4> out({extents[0], extents[1], extents[2], keys});
  attention(query, key, value, out, rule, options);
  return expect_mask(out, options.drop, sees);
}

TEST(Dropout, D12_the_mask_is_that_of_its_definition) {
  for_each_type([]<class T>(T) {
    for (index_t size : {index_t{5}, index_t{70}, index_t{130}}) {
      for (int threads : {1, 2, 3}) {
        const attention_options options{.drop = {.p = 0.3, .seed = 11, .offset = 4}, .threads = threads};
        const double kept = expect_mask_of_call<T>({2, 4, size, size}, 2, options);
        const double count = static_cast<double>(8 * size * size);
        EXPECT_LT(std::fabs(kept - 0.7), 5 * std::sqrt(0.3 * 0.7 / count)) << size;
      }
    }
  });
}

TEST(Dropout, TheMaskIsTheSameForEveryNumberOfRows) {
  for (index_t rows = 1; rows <= 50; ++rows) {
    expect_mask_of_call<float>({1, 2, rows, 37}, 1, {.drop = {.p = 0.5, .seed = std::uint64_t{1} << 40, .offset = 3}});
    expect_mask_of_call<double>({1, 2, rows, 37}, 2, {.drop = {.p = 0.5, .seed = 8, .offset = std::uint64_t{9} << 32}});
  }
}

TEST(Dropout, TheMaskStaysWhereMasksCutTiles) {
  const attention_options options{.drop = {.p = 0.4, .seed = 5}};
  std::vector<index_t> ids, begins = {7, 90}, ends = {201, 203};
  for (index_t j = 0; j < 300; ++j) ids.push_back(j / 67);
  const auto check = [&]<class T>(T) {
    const auto run = [&](index_t batch, index_t rows, index_t keys, auto const& rule, visible const& sees) {
      expect_mask_of_call<T>({batch, 2, rows, keys}, 1, options, rule, sees);
    };
    run(1, 130, 130, causal{}, [](position const& at) { return at.key <= at.query + at.offset; });
    run(1, 70, 300, causal{} & window{.left = 33},
        [](position const& at) { return at.key <= at.query + at.offset && at.key >= at.query + at.offset - 33; });
    run(1, 3, 300, causal{}, [](position const& at) { return at.key <= at.query + at.offset; });
    run(1, 300, 300, documents{.ids = ids}, [](position const& at) { return at.query / 67 == at.key / 67; });
    run(2, 60, 210, lengths{.key = ends, .key_start = begins}, [&](position const& at) {
      return at.key >= begins[std::size_t(at.batch)] && at.key < ends[std::size_t(at.batch)];
    });
    run(1, 90, 200, mask_fn([](position at) { return (at.key + at.query) % 3 != 0; }),
        [](position const& at) { return (at.key + at.query) % 3 != 0; });
  };
  check(float{});
  check(double{});
}

TEST(Dropout, LayoutsDoNotMatter) {
  const index_t rows = 60, keys = 70;
  const auto q = random_tensor<float>({2, rows, 4, 8}, 1), k = random_tensor<float>({2, keys, 2, 8}, 2),
             v = random_tensor<float>({2, keys, 2, 8}, 3);
  tensor<float, 4> inside({2, rows, 4, 8}), plain({2, 4, rows, 8}), dense_q({2, 4, rows, 8}), dense_k({2, 2, keys, 8}),
      dense_v({2, 2, keys, 8});
  for (index_t b = 0; b < 2; ++b) {
    for (index_t d = 0; d < 8; ++d) {
      for (index_t h = 0; h < 4; ++h) {
        for (index_t i = 0; i < rows; ++i) dense_q(b, h, i, d) = q(b, i, h, d);
      }
      for (index_t h = 0; h < 2; ++h) {
        for (index_t j = 0; j < keys; ++j) dense_k(b, h, j, d) = k(b, j, h, d), dense_v(b, h, j, d) = v(b, j, h, d);
      }
    }
  }
  const attention_options options{.drop = {.p = 0.2, .seed = 3}};
  attention(bshd(q.data(), 2, rows, 4, 8), bshd(k.data(), 2, keys, 2, 8), bshd(v.data(), 2, keys, 2, 8),
            bshd(inside.data(), 2, rows, 4, 8), causal{}, options);
  attention(dense_q, dense_k, dense_v, plain, causal{}, options);
  EXPECT_TRUE(same_bits(bshd(inside.data(), 2, rows, 4, 8), plain.view()));
}

TEST(Dropout, AgreesWithTheReference) {
  for_each_type([]<class T>(T) {
    for (double p : {0.1, 0.5, 0.97}) {
      for (index_t rows : {index_t{1}, index_t{4}, index_t{50}}) {
        const auto q = random_tensor<T>({2, 4, rows, 20}, 1), k = random_tensor<T>({2, 2, 140, 20}, 2),
                   v = random_tensor<T>({2, 2, 140, 9}, 3);
        const auto wide = [](tensor<T, 4> const& from) {
          tensor<double, 4> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)});
          for (index_t i = 0; i < to.size(); ++i) to.data()[i] = static_cast<double>(from.data()[i]);
          return to;
        };
        const attention_options options{.softcap = 3.0, .drop = {.p = p, .seed = 2, .offset = 77}};
        const std::vector<float> logits = {0.5f, 1, -1, 0};
        const auto rule = causal{} & sink{.logits = logits};
        tensor<T, 4> out({2, 4, rows, 9});
        attention(q, k, v, out, rule, options);
        const verdict<accumulate_of<T>> judge(wide(q), wide(k), wide(v), rule, options);
        EXPECT_TRUE(judge.out(out.view())) << p << " " << rows;
      }
    }
  });
}

/// lse, weights and scores are those before dropout, bit for bit, where the same kernels compute them.
TEST(Dropout, TheOtherOutputsDoNotNotice) {
  const auto run = [](auto element, dropout const& drop) {
    using T = decltype(element);
    const auto q = random_tensor<T>({1, 4, 60, 16}, 1), k = random_tensor<T>({1, 2, 150, 16}, 2),
               v = random_tensor<T>({1, 2, 150, 16}, 3);
    struct {
      tensor<T, 4> out{{1, 4, 60, 16}}, weights{{1, 4, 60, 150}};
      tensor<accumulate_of<T>, 4> scores{{1, 4, 60, 150}};
      tensor<accumulate_of<T>, 3> lse{{1, 4, 60}};
    } found;
    attention(q, k, v, into(found.out).lse(found.lse).weights(found.weights).scores(found.scores, score_stage::biased),
              causal{} & window{.left = 60}, {.drop = drop, .precise = true});
    return found;
  };
  for_each_type([&]<class T>(T element) {
    const auto plain = run(element, {}), dropped = run(element, {.p = 0.6, .seed = 1}),
               gone = run(element, {.p = 1, .seed = 1});
    EXPECT_FALSE(same_bits(plain.out, dropped.out));
    for (auto const* one : {&dropped, &gone}) {
      EXPECT_TRUE(same_bits(plain.lse, one->lse));
      EXPECT_TRUE(same_bits(plain.weights, one->weights));
      EXPECT_TRUE(same_bits(plain.scores, one->scores));
    }
    for (index_t i = 0; i < gone.out.size(); ++i) ASSERT_EQ(static_cast<double>(gone.out.data()[i]), 0.0);
  });
}

TEST(Dropout, OfZeroIsNoDropout) {
  const auto q = random_tensor<float>({1, 2, 60, 16}, 1), k = random_tensor<float>({1, 2, 150, 16}, 2);
  EXPECT_TRUE(same_bits(attention(q, k, k), attention(q, k, k, {.drop = {.p = 0, .seed = 5, .offset = 6}})));
}

TEST(Dropout, AnotherSeedOrOffsetIsAnotherMask) {
  const auto q = random_tensor<float>({1, 1, 9, 16}, 1), k = random_tensor<float>({1, 1, 40, 16}, 2);
  const auto one = attention(q, k, k, {.drop = {.p = 0.5, .seed = 5}});
  EXPECT_TRUE(same_bits(one, attention(q, k, k, {.drop = {.p = 0.5, .seed = 5}})));
  EXPECT_FALSE(same_bits(one, attention(q, k, k, {.drop = {.p = 0.5, .seed = 6}})));
  EXPECT_FALSE(same_bits(one, attention(q, k, k, {.drop = {.p = 0.5, .seed = 5, .offset = 1}})));
  EXPECT_FALSE(same_bits(one, attention(q, k, k, {.drop = {.p = 0.5, .seed = 5, .offset = std::uint64_t{1} << 32}})));
}

/// A seed whose mask of row 0 begins with what an entry of the cases gives.
dropout dropping(double p, std::vector<bool> const& keep) {
  for (dropout drop{.p = p};; ++drop.seed) {
    bool fits = true;
    for (std::size_t j = 0; j < keep.size(); ++j) fits &= dropout_keeps(drop, 0, 0, 0, index_t(j)) == keep[j];
    if (fits) return drop;
  }
}

TEST(Dropout, D9_survivors_grow_by_the_inverse_of_their_share) {
  const dropout drop = dropping(0.25, {true, false, true});
  for_each_type([&]<class T>(T) {
    expect_values(means(1, 1, values_of<T>({1, 2, 4}), no_mask{}, {.drop = drop}).out, {20.0 / 9});
  });
}

TEST(Dropout, D10_dropped_weights_do_not_sum_to_one) {
  const dropout drop = dropping(0.25, {true, false, true});
  for_each_type([&]<class T>(T) {
    const auto found = means(1, 1, values_of<T>({1, 1, 1}), no_mask{}, {.drop = drop});
    expect_values(found.out, {8.0 / 9});
    expect_values(found.lse, {std::log(3.0)});
  });
}

TEST(Dropout, NanReachesTheRowsThatSeeItAndNoOthers) {
  auto v = counted_values<float>(150);
  v.data()[100] = std::numeric_limits<float>::quiet_NaN();
  const dropout drop{.p = 0.5, .seed = 9};
  const auto found = means(1, 150, v, causal{}, {.drop = drop});
  for (index_t i = 0; i < 150; ++i) {
    double sum = 0;
    for (index_t j = 0; j <= i; ++j) sum += dropout_keeps(drop, 0, 0, i, j) ? 2.0 * double(j) / double(i + 1) : 0;
    const double got = found.out.data()[i];
    if (i >= 100) {
      EXPECT_TRUE(std::isnan(got)) << i;
    } else {
      EXPECT_NEAR(got, sum, 2e-6 * (1 + sum)) << i;
    }
  }
}

/// Sums that overflow on their way, to a result that does not.
TEST(Dropout, LargeValuesStayFiniteWhereTheirSumIs) {
  for (double p : {0.25, 0.5, 0.9}) {
    const dropout drop{.p = p, .seed = 9};
    tensor<float, 4> v({1, 1, 160, 1});
    for (index_t j = 0; j < 160; ++j) v.data()[j] = j % 2 == 0 ? 3e38f : -2e38f;
    const auto found = means(1, 40, v, no_mask{}, {.drop = drop});
    for (index_t i = 0; i < 40; ++i) {
      double sum = 0;
      for (index_t j = 0; j < 160; ++j) {
        if (dropout_keeps(drop, 0, 0, i, j)) sum += double(v.data()[j]) / 160 / (1 - p);
      }
      if (std::fabs(sum) < 3.4e38) {
        EXPECT_NEAR(found.out.data()[i], sum, 3e33 / (1 - p)) << p << " " << i;
      } else {
        EXPECT_EQ(found.out.data()[i], static_cast<float>(sum)) << p << " " << i;
      }
    }
  }
}

TEST(Dropout, ExplainSaysWhatRuns) {
  tensor<bfloat16, 4> many({1, 1, 60, 16}), few({1, 1, 1, 16});
  EXPECT_TRUE(has_line(explain(many, many, many), "dropout: off"));
  for (auto const* query : {&many, &few}) {
    const std::string text = explain(*query, many, many, {.drop = {.p = 0.1, .seed = 7}});
    EXPECT_TRUE(has_line(text, "dropout: p 0.1, seed 7, offset 0")) << text;
    EXPECT_TRUE(has_line(text, "bf16_dot: off")) << text;
    EXPECT_TRUE(has_line(text, "verbs: scores, softmax, drop, accumulate")) << text;
    EXPECT_EQ(text.find("decode"), std::string::npos) << text;
  }
}

TEST(Dropout, AProbabilityIsFromZeroToOne) {
  const tensor<float, 2> x({2, 2});
  for (double p : {-0.1, 1.0000001, infinity, -infinity, not_a_number}) {
    EXPECT_EQ(validate(x, x, x, {.drop = {.p = p}}), errc::bad_dropout) << p;
    EXPECT_THROW((void)attention(x, x, x, {.drop = {.p = p}}), error) << p;
  }
  for (double p : {0.0, 1e-300, 1.0}) EXPECT_EQ(validate(x, x, x, {.drop = {.p = p}}), errc::ok) << p;
}

}  // namespace
