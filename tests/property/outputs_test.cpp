// What a call writes besides out: scores at every stage, weights. Whatever is asked for, on every path, nothing else
// changes by a bit, and what is written is what its definition says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heed/heed.hpp"
#include "heed/reference/forward.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class T>
tensor<T, 4> normal(axes<4> extents, unsigned seed) {
  random_source random(seed);
  tensor<T, 4> filled(extents);
  for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = static_cast<T>(random.normal());
  return filled;
}

template <class T>
struct inputs {
  tensor<T, 4> q, k, v;

  inputs(index_t rows, index_t keys, index_t dim = 20, index_t value_dim = 9)
      : q(normal<T>({2, 4, rows, dim}, 1)),
        k(normal<T>({2, 2, keys, dim}, 2)),
        v(normal<T>({2, 2, keys, value_dim}, 3)) {}
};

/// [B, H, Sq, Skv] in memory with gaps, its keys next to each other or not, everything else marked.
template <class T>
struct strided {
  static constexpr float mark = 77;
  tensor<T, 4> memory;
  tensor_view<T, 4> view;

  strided(axes<4> extents, bool contiguous_keys) {
    if (contiguous_keys) {
      memory = tensor<T, 4>({extents[1], extents[0], extents[2] + 1, extents[3] + 3});
      const index_t row = extents[3] + 3, matrix = (extents[2] + 1) * row;
      view = tensor_view<T, 4>(memory.data() + 1, extents, {matrix, extents[0] * matrix, row, 1});
    } else {  // keys outside, rows backwards
      memory = tensor<T, 4>({extents[0], extents[1], extents[3], extents[2] + 2});
      const index_t column = extents[2] + 2, matrix = extents[3] * column;
      view = tensor_view<T, 4>(memory.data() + extents[2], extents, {extents[1] * matrix, matrix, -1, column});
    }
    for (index_t i = 0; i < memory.size(); ++i) memory.data()[i] = static_cast<T>(mark);
  }

  /// How many elements outside of the view are not what they were.
  [[nodiscard]] index_t touched() const {
    index_t changed = 0, marked = 0;
    for (index_t i = 0; i < memory.size(); ++i) changed += static_cast<float>(memory.data()[i]) != mark;
    for (index_t b = 0; b < view.extent(0); ++b) {
      for (index_t h = 0; h < view.extent(1); ++h) {
        for (index_t i = 0; i < view.extent(2); ++i) {
          for (index_t j = 0; j < view.extent(3); ++j) marked += static_cast<float>(view(b, h, i, j)) != mark;
        }
      }
    }
    return changed - marked;
  }
};

template <class View>
void expect_near(View const& found, tensor<double, 4> const& right, double bound, char const* what) {
  index_t wrong = 0;
  for (index_t b = 0; b < right.extent(0); ++b) {
    for (index_t h = 0; h < right.extent(1); ++h) {
      for (index_t i = 0; i < right.extent(2); ++i) {
        for (index_t j = 0; j < right.extent(3); ++j) {
          const double got = static_cast<double>(found(b, h, i, j)), wanted = right(b, h, i, j);
          if (got == wanted || std::fabs(got - wanted) <= bound * (1 + std::fabs(wanted))) continue;
          if (wrong++ == 0) {
            ADD_FAILURE() << what << "[" << b << ", " << h << ", " << i << ", " << j << "] is " << got << ", must be "
                          << wanted;
          }
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0) << what;
}

/// Everything that can be asked for, against the definition, and out and lse against the call that asks for nothing.
template <class T, class Written, class Rule>
void expect_right_outputs(inputs<T> const& in, Rule const& rule, attention_options const& options, bool contiguous) {
  const axes<4> extents{2, 4, in.q.extent(2), in.k.extent(2)};
  const double bound = std::fmax(2e-5, 1.01 * ulp<Written>(1.0));
  tensor<double, 4> raw(extents), capped(extents), biased(extents), weights(extents);
  tensor<double, 4> ignored({2, 4, in.q.extent(2), in.v.extent(3)});
  reference::attention(in.q, in.k, in.v,
                       into(ignored)
                           .scores(raw, score_stage::raw)
                           .scores(capped, score_stage::capped)
                           .scores(biased, score_stage::biased),
                       rule, options);
  for (index_t i = 0; i < weights.size(); i += extents[3]) {  // by hand: from the biased scores
    double largest = -infinite, sum = 0;
    for (index_t j = 0; j < extents[3]; ++j) largest = std::fmax(largest, biased.data()[i + j]);
    for (index_t j = 0; j < extents[3] && largest > -infinite; ++j) sum += std::exp(biased.data()[i + j] - largest);
    for (index_t j = 0; j < extents[3] && largest > -infinite; ++j) {
      weights.data()[i + j] = std::exp(biased.data()[i + j] - largest) / sum;
    }
  }
  tensor<T, 4> out({2, 4, in.q.extent(2), in.v.extent(3)}), plain = out;
  tensor<accumulate_of<T>, 3> lse({2, 4, in.q.extent(2)}), plain_lse = lse;
  attention(in.q, in.k, in.v, into(plain).lse(plain_lse), rule, options);
  strided<Written> r(extents, contiguous), c(extents, contiguous), b(extents, contiguous), w(extents, contiguous);
  const auto same_as_plain = [&](char const* what) {
    EXPECT_TRUE(same_bits(out, plain)) << what;
    EXPECT_TRUE(same_bits(lse, plain_lse)) << what;
  };
  attention(in.q, in.k, in.v,
            into(out)
                .lse(lse)
                .scores(r.view, score_stage::raw)
                .scores(c.view, score_stage::capped)
                .scores(b.view, score_stage::biased)
                .weights(w.view),
            rule, options);
  same_as_plain("all outputs");
  expect_near(r.view, raw, bound, "raw");
  expect_near(c.view, capped, bound, "capped");
  expect_near(b.view, biased, bound, "biased");
  expect_near(w.view, weights, bound, "weights");
  EXPECT_EQ(r.touched() + c.touched() + b.touched() + w.touched(), 0);

  strided<Written> b2(extents, contiguous), w2(extents, contiguous);
  attention(in.q, in.k, in.v, into(out).lse(lse).scores(b2.view, score_stage::biased), rule, options);
  same_as_plain("biased");
  attention(in.q, in.k, in.v, into(out).lse(lse).weights(w2.view), rule, options);
  same_as_plain("weights");
  EXPECT_TRUE(same_bits(b.view, b2.view)) << "biased, alone";
  EXPECT_TRUE(same_bits(w.view, w2.view)) << "weights, alone";
}

template <class T, class Written, class Rule>
void expect_right_outputs(Rule const& rule, attention_options const& options = {}, bool contiguous = true) {
  for (index_t rows : {1, 3, 17, 71}) {
    for (index_t keys : {1, 65, 270}) {
      SCOPED_TRACE(testing::Message() << type_name<T>() << " " << rows << " rows, " << keys << " keys");
      expect_right_outputs<T, Written>(inputs<T>(rows, keys), rule, options, contiguous);
    }
  }
}

TEST(Outputs, ScoresAndWeightsAreWhatTheirDefinitionSays) {
  expect_right_outputs<float, float>(no_mask{});
  expect_right_outputs<float, float>(causal{});
  expect_right_outputs<float, float>(causal{}, {.scale = -0.7, .anchor = top_left});
  expect_right_outputs<float, float>(causal{}, {.softcap = 0.8, .anchor = at_offset(-40)});
  expect_right_outputs<double, double>(causal{}, {.softcap = 0.8});
}

TEST(Outputs, MayBeOfAnyTypeAndStrides) {
  expect_right_outputs<float, float>(causal{}, {}, false);
  expect_right_outputs<float, half>(causal{});
  expect_right_outputs<float, double>(no_mask{}, {.softcap = 2}, false);
  expect_right_outputs<half, float>(causal{});
  expect_right_outputs<double, bfloat16>(causal{}, {}, false);
  expect_right_outputs<double, float>(causal{});
}

/// Where its dot product is fast, scores are scaled late.
TEST(Outputs, OfBfloat16) {
  expect_right_outputs<bfloat16, float>(no_mask{}, {.scale = 0.4});
  expect_right_outputs<bfloat16, float>(causal{}, {.scale = -0.4});
  expect_right_outputs<bfloat16, half>(causal{}, {.softcap = 1.5});
}

TEST(Outputs, OfScoreStages) {
  const std::vector<float> slopes = {0.5f, 0.1f, 0.02f, 0.3f};
  const auto wave = score_fn([](auto score, position at) { return score + static_cast<decltype(score)>(at.key % 3); });
  expect_right_outputs<float, float>(alibi{slopes} & causal{}, {.softcap = 2});
  expect_right_outputs<bfloat16, float>(causal{} & wave, {.scale = 0.3});
  for (index_t rows : {3, 70}) {
    auto terms = normal<half>({1, 4, rows, 200}, 8);
    for (index_t i = 0; i < terms.size(); i += 7) terms.data()[i] = half(-infinite);
    expect_right_outputs<float, float>(inputs<float>(rows, 200), bias(terms), {}, true);
    expect_right_outputs<half, double>(inputs<half>(rows, 200), causal{} & bias(terms) & alibi{slopes}, {}, false);
    expect_right_outputs<bfloat16, float>(inputs<bfloat16>(rows, 200), bias(terms), {.softcap = 2}, true);
  }
}

TEST(Outputs, UnderMasksThatHideWholeBlocksAndParts) {
  tensor<bool, 2> keep({100, 300});
  for (index_t i = 0; i < 100; ++i) {
    for (index_t j = 0; j < 300; ++j) keep(i, j) = (j / 128 == 0 && i % 3 == 0) || (j / 128 == 2 && (i + j) % 5 == 0);
  }
  expect_right_outputs<float, float>(inputs<float>(100, 300), keep_mask(keep), {}, true);
  expect_right_outputs<float, float>(inputs<float>(100, 300), drop_mask(keep) & causal{}, {.softcap = 1.0}, true);
  expect_right_outputs<float, double>(inputs<float>(100, 300), keep_mask(keep) & causal{}, {}, false);
  const auto few = tensor_view<bool const, 2>(keep.data(), {3, 300}, {300, 1});
  expect_right_outputs<float, float>(inputs<float>(3, 300), keep_mask(few), {}, true);
  expect_right_outputs<float, half>(inputs<float>(3, 300), drop_mask(few) & causal{}, {.softcap = 1.0}, false);
}

TEST(Outputs, KeysOutsideTheLengthsAreNotRead) {
  const std::vector<index_t> starts = {3, 40};
  for (index_t rows : {3, 20, 70}) {
    const std::vector<index_t> queries = {rows, rows - 2}, keys = {170, 131};
    const lengths some{.query = queries, .key = keys, .key_start = starts};
    inputs<float> in(rows, 300);
    expect_right_outputs<float, float>(in, some, {}, true);
    expect_right_outputs<float, float>(in, some & causal{}, {}, true);
    const axes<4> extents{2, 4, rows, 300};
    tensor<float, 4> raw(extents), biased(extents), weights(extents), out({2, 4, rows, 9});
    const auto ask = [&] {
      attention(in.q, in.k, in.v,
                into(out).scores(raw, score_stage::raw).scores(biased, score_stage::biased).weights(weights),
                some & causal{});
    };
    ask();
    const auto raw_before = raw, biased_before = biased, weights_before = weights, out_before = out;
    for (index_t b = 0; b < 2; ++b) {
      for (index_t j = 0; j < 300; ++j) {
        if (j >= starts[static_cast<std::size_t>(b)] && j < keys[static_cast<std::size_t>(b)]) continue;
        for (index_t h = 0; h < 2; ++h) {
          for (index_t d = 0; d < 20; ++d) in.k(b, h, j, d) = not_a_number;
          for (index_t d = 0; d < 9; ++d) in.v(b, h, j, d) = not_a_number;
        }
      }
    }
    ask();
    EXPECT_TRUE(same_bits(raw, raw_before));
    EXPECT_TRUE(same_bits(biased, biased_before));
    EXPECT_TRUE(same_bits(weights, weights_before));
    EXPECT_TRUE(same_bits(out, out_before));
  }
}

/// A key that masks hide may hold NaN: raw shows it, nothing else knows of it.
TEST(Outputs, GarbageInHiddenKeysShowsInRawOnly) {
  for (index_t rows : {3, 60}) {
    inputs<float> in(rows, 200);
    tensor<bool, 2> keep({1, 200});
    for (index_t j = 0; j < 200; ++j) keep(0, j) = j % 7 != 3 && j < 128;
    const axes<4> extents{2, 4, rows, 200};
    tensor<float, 4> raw(extents), biased(extents), weights(extents), out({2, 4, rows, 9});
    const auto ask = [&] {
      attention(in.q, in.k, in.v,
                into(out).scores(raw, score_stage::raw).scores(biased, score_stage::biased).weights(weights),
                keep_mask(keep));
    };
    ask();
    const auto raw_before = raw, biased_before = biased, weights_before = weights, out_before = out;
    for (index_t j = 0; j < 200; ++j) {
      if (keep(0, j)) continue;
      for (index_t b = 0; b < 2; ++b) {
        for (index_t d = 0; d < 20; ++d) in.k(b, 1, j, d) = not_a_number;
        for (index_t d = 0; d < 9; ++d) in.v(b, 1, j, d) = j % 2 == 0 ? infinite : not_a_number;
      }
    }
    ask();
    for (index_t j = 0; j < 200; ++j) {
      EXPECT_EQ(std::isnan(raw(1, 3, rows - 1, j)), !keep(0, j));
      EXPECT_EQ(raw(1, 1, rows - 1, j), raw_before(1, 1, rows - 1, j));
    }
    EXPECT_TRUE(same_bits(biased, biased_before));
    EXPECT_TRUE(same_bits(weights, weights_before));
    EXPECT_TRUE(same_bits(out, out_before));
  }
}

/// A sum that overflows before its division is computed again: the weights that go with it are those of any call.
TEST(Outputs, OfRowsThatAreComputedAgain) {
  for (index_t rows : {3, 60}) {
    const inputs<float> small_values(rows, 300);
    inputs<float> in(rows, 300);
    for (index_t j = 0; j < 300; ++j) in.v(0, 0, j, 4) = 3e38f;
    const axes<4> extents{2, 4, rows, 300};
    tensor<float, 4> weights(extents), expected(extents), scores(extents), right(extents), out({2, 4, rows, 9});
    attention(small_values.q, small_values.k, small_values.v,
              into(out).weights(expected).scores(right, score_stage::biased), causal{});
    attention(in.q, in.k, in.v, into(out).weights(weights).scores(scores, score_stage::biased), causal{});
    EXPECT_NEAR(out(0, 0, rows - 1, 4) / 3e38f, 1, 1e-5);
    EXPECT_TRUE(same_bits(weights, expected));
    EXPECT_TRUE(same_bits(scores, right));
  }
}

/// NaN and infinite scores stay in their rows.
TEST(Outputs, OfRowsThatAreNotANumber) {
  for (index_t rows : {3, 60}) {
    inputs<float> in(rows, 150);
    in.q(0, 1, 1, 0) = not_a_number;
    in.q(1, 2, 2, 5) = infinite;
    const axes<4> extents{2, 4, rows, 150};
    tensor<float, 4> weights(extents), out({2, 4, rows, 9});
    tensor<double, 4> twice(extents);
    attention(in.q, in.k, in.v, into(out).weights(weights), causal{}, {.anchor = at_offset(100)});
    attention(in.q, in.k, in.v, into(out).weights(twice), causal{}, {.anchor = at_offset(100)});
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 4; ++h) {
        for (index_t i = 0; i < rows; ++i) {
          const bool poisoned = (b == 0 && h == 1 && i == 1) || (b == 1 && h == 2 && i == 2);
          for (index_t j = 0; j < 150; ++j) {
            if (j > i + 100) {
              EXPECT_EQ(weights(b, h, i, j), 0);
            } else if (poisoned) {
              EXPECT_EQ(std::isnan(weights(b, h, i, j)), std::isnan(twice(b, h, i, j)));
            } else {
              EXPECT_EQ(static_cast<double>(weights(b, h, i, j)), twice(b, h, i, j));
            }
          }
        }
      }
    }
    EXPECT_TRUE(std::isnan(weights(0, 1, 1, 0)));
  }
}

TEST(Outputs, WeightsLeaveTheSinkItsShare) {
  const std::vector<float> logits(4, 2.5f);
  for (index_t rows : {3, 60}) {
    const inputs<float> in(rows, 200);
    const axes<4> extents{2, 4, rows, 200};
    tensor<float, 4> weights(extents), biased(extents), out({2, 4, rows, 9});
    tensor<double, 4> twice(extents);
    tensor<float, 3> lse({2, 4, rows});
    const auto rule = sink{logits} & causal{};
    attention(in.q, in.k, in.v, into(out).weights(weights).lse(lse).scores(biased, score_stage::biased), rule);
    attention(in.q, in.k, in.v, into(out).weights(twice), rule);
    for (index_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (index_t j = 0; j < 200; ++j) {
        const double weight = weights(1, 2, i, j);
        EXPECT_EQ(weight, twice(1, 2, i, j));
        EXPECT_NEAR(weight, std::exp(static_cast<double>(biased(1, 2, i, j) - lse(1, 2, i))), 1e-6);
        sum += weight;
      }
      EXPECT_NEAR(sum + std::exp(2.5 - lse(1, 2, i)), 1, 1e-5);
    }
  }
}

TEST(Outputs, AreTheSameForEveryNumberOfThreads) {
  tensor<bool, 1> keep({3000});
  for (index_t j = 0; j < 3000; ++j) keep(j) = j % 5 != 0 && j / 300 != 3;
  for (index_t rows : {2, 200}) {
    const inputs<float> in(rows, 3000, 32, 32);
    const axes<4> extents{2, 4, rows, 3000};
    tensor<float, 4> raw(extents), capped(extents), biased(extents), weights(extents), out({2, 4, rows, 32});
    tensor<float, 4> raw1(extents), capped1(extents), biased1(extents), weights1(extents), out1 = out;
    const auto ask = [&](auto& o, auto& r, auto& c, auto& b, auto& w, int threads) {
      attention(
          in.q, in.k, in.v,
          into(o).scores(r, score_stage::raw).weights(w).scores(c, score_stage::capped).scores(b, score_stage::biased),
          keep_mask(keep) & causal{}, {.softcap = 3, .threads = threads});
    };
    ask(out1, raw1, capped1, biased1, weights1, 1);
    for (int threads : {2, 3, 7}) {
      for (auto* filled : {&raw, &capped, &biased, &weights, &out}) {
        for (index_t i = 0; i < filled->size(); ++i) filled->data()[i] = 77;
      }
      ask(out, raw, capped, biased, weights, threads);
      EXPECT_TRUE(same_bits(raw, raw1)) << threads;
      EXPECT_TRUE(same_bits(capped, capped1)) << threads;
      EXPECT_TRUE(same_bits(biased, biased1)) << threads;
      EXPECT_TRUE(same_bits(weights, weights1)) << threads;
      EXPECT_TRUE(same_bits(out, out1)) << threads;
    }
  }
}

/// K is packed for all pieces of work: what no row sees, too, where it is to be seen.
TEST(Outputs, OfKeysThatArePackedOnce) {
  const auto q = normal<float>({1, 8, 150, 16}, 1);
  const auto k = normal<half>({1, 1, 700, 16}, 2), v = normal<half>({1, 1, 700, 8}, 3);
  tensor<float, 4> raw({1, 8, 150, 700}), biased = raw, out({1, 8, 150, 8});
  tensor<double, 4> right({1, 8, 150, 700}), right_biased = right, ignored({1, 8, 150, 8});
  const auto to = into(out).scores(raw, score_stage::raw).scores(biased, score_stage::biased);
  EXPECT_TRUE(is_packed_once(explain(q, k, v, to, causal{}, {.anchor = top_left})));
  attention(q, k, v, to, causal{}, {.anchor = top_left});
  reference::attention(q, k, v, into(ignored).scores(right, score_stage::raw).scores(right_biased, score_stage::biased),
                       causal{}, {.anchor = top_left});
  expect_near(raw, right, 2e-5, "raw");
  expect_near(biased, right_biased, 2e-5, "biased");
}

TEST(Outputs, OfOneStageMoreThanOnce) {
  const inputs<float> in(20, 40);
  tensor<float, 4> one({2, 4, 20, 40}), other = one, out({2, 4, 20, 9});
  tensor<half, 4> third({2, 4, 20, 40});
  attention(in.q, in.k, in.v,
            into(out).scores(one, score_stage::raw).scores(third, score_stage::raw).scores(other, score_stage::raw));
  EXPECT_TRUE(same_bits(one, other));
  EXPECT_EQ(static_cast<float>(third(1, 3, 19, 39)), static_cast<float>(half(one(1, 3, 19, 39))));
}

/// Heads and rows in part are views: pointer, extents, strides, as in any other call.
TEST(Outputs, OfSomeHeadsAndRowsAreViews) {
  const inputs<float> in(60, 90);
  tensor<float, 4> out({2, 4, 60, 9}), weights({2, 4, 60, 90}), raw = weights;
  attention(in.q, in.k, in.v, into(out).weights(weights).scores(raw, score_stage::raw), causal{});
  // Query heads 2 and 3, which share key-value head 1; rows 7, 9, 11, ... of them, each where it stood.
  const auto part = [](auto& whole, index_t columns, index_t first_row, index_t step, index_t rows) {
    return tensor_view<std::remove_pointer_t<decltype(whole.data())>, 4>(
        &whole(0, 2, first_row, 0), {2, 2, rows, columns},
        {whole.stride(0), whole.stride(1), step * whole.stride(2), 1});
  };
  const tensor_view<float const, 4> k(&in.k(0, 1, 0, 0), {2, 1, 90, 20},
                                      {in.k.stride(0), in.k.stride(1), in.k.stride(2), 1});
  const tensor_view<float const, 4> v(&in.v(0, 1, 0, 0), {2, 1, 90, 9},
                                      {in.v.stride(0), in.v.stride(1), in.v.stride(2), 1});
  tensor<float, 4> some_out({2, 4, 60, 9}), some_weights({2, 4, 60, 90}), some_raw = some_weights;
  for (index_t row = 0; row < 60; ++row) {  // the whole heads, row by row in eights
    if (row % 8 != 0) continue;
    const index_t rows = row + 8 <= 60 ? 8 : 60 - row;
    attention(part(in.q, 20, row, 1, rows), k, v,
              into(part(some_out, 9, row, 1, rows))
                  .weights(part(some_weights, 90, row, 1, rows))
                  .scores(part(some_raw, 90, row, 1, rows), score_stage::raw),
              causal{}, {.anchor = at_offset(30 + row)});
  }
  for (index_t h = 0; h < 4; ++h) {
    for (index_t i = 0; i < 60; ++i) {
      for (index_t j = 0; j < 90; ++j) {
        EXPECT_NEAR(some_weights(1, h, i, j), h < 2 ? 0 : weights(1, h, i, j), 1e-6);
        EXPECT_NEAR(some_raw(1, h, i, j), h < 2 ? 0 : raw(1, h, i, j), 1e-5);
      }
      for (index_t d = 0; d < 9; ++d) EXPECT_NEAR(some_out(1, h, i, d), h < 2 ? 0 : out(1, h, i, d), 1e-5);
    }
  }
  tensor<float, 4> every_other({2, 4, 60, 9});
  attention(part(in.q, 20, 7, 2, 20), k, v, part(every_other, 9, 7, 2, 20));
  tensor<float, 4> unmasked({2, 4, 60, 9});
  attention(in.q, in.k, in.v, unmasked);
  for (index_t i = 0; i < 60; ++i) {
    const bool asked = i >= 7 && i < 47 && i % 2 == 1;
    EXPECT_NEAR(every_other(1, 3, i, 8), asked ? unmasked(1, 3, i, 8) : 0, 1e-5);
  }
}

TEST(Outputs, ExplainTellsWhatTheyCost) {
  const inputs<float> in(256, 256, 16, 16);
  tensor<float, 4> out({2, 4, 256, 16}), square({2, 4, 256, 256});
  tensor<half, 4> narrow({2, 4, 256, 256});
  const auto flops = [&](outputs const& to, auto const& rule) {
    return number_of(explain(in.q, in.k, in.v, to, rule), "flops");
  };
  const double all = 2.0 * 8 * 256 * 256 * 32;
  EXPECT_EQ(flops(into(out), no_mask{}), all);
  EXPECT_EQ(flops(into(out).weights(square), no_mask{}), all);
  EXPECT_EQ(flops(into(out).weights(narrow), no_mask{}), all * 1.5);
  EXPECT_EQ(flops(into(out).scores(square, score_stage::raw), no_mask{}), all);
  const double half_of_it = flops(into(out), causal{});
  EXPECT_EQ(flops(into(out).scores(square, score_stage::biased), causal{}), half_of_it);
  // What is seen only in part is attended in stretches of whole keys: a few more.
  EXPECT_NEAR(flops(into(out).scores(square, score_stage::capped), causal{}) / (half_of_it / 2 + all / 2), 1, 0.01);
  tensor<float, 4> more({2, 4, 256, 256});
  const std::string text = explain(
      in.q, in.k, in.v, into(out).weights(narrow).scores(square, score_stage::biased).scores(more, score_stage::raw));
  EXPECT_TRUE(has_line(text, "weights: in a second pass")) << text;
  EXPECT_TRUE(has_line(text, "scores: raw biased")) << text;
  EXPECT_TRUE(has_line(explain(in.q, in.k, in.v, into(out).weights(square)), "weights: in one pass"));
  EXPECT_TRUE(has_line(explain(in.q, in.k, in.v), "weights: none"));
  EXPECT_TRUE(has_line(explain(in.q, in.k, in.v), "scores: none"));
}

}  // namespace
