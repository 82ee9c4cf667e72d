// The reference's gradients against central differences of its own forward pass, and against numbers worked by hand.
#include "heed/reference/backward.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heed/heed.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using test::column;
using test::pattern;
using test::random_source;
using test::s7;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Everything that a loss may depend on, and the loss: sum(d_out * out) + sum(d_lse * lse).
struct inputs {
  tensor<double, 4> query{{2, 4, 3, 3}}, key{{2, 2, 5, 3}}, value{{2, 2, 5, 2}}, d_out{{2, 4, 3, 2}};
  tensor<double, 3> d_lse{{2, 4, 3}};
  tensor<double, 2> row_terms{{3, 5}};
  tensor<double, 4> head_terms{{1, 4, 1, 5}};
  tensor<float, 2> table{{6, 4}};
  std::vector<float> slopes, logits, more_logits;
  attention_options options{};
  double keep_below = 2;  // of dropout: what is kept of each score's own number in [0, 1)

  inputs() {
    random_source random(1);
    for (auto* filled : {&query, &key, &value, &d_out, &head_terms}) {
      for (index_t i = 0; i < filled->size(); ++i) filled->data()[i] = random.normal();
    }
    for (index_t i = 0; i < d_lse.size(); ++i) d_lse.data()[i] = random.normal();
    for (index_t i = 0; i < row_terms.size(); ++i) row_terms.data()[i] = random.normal();
    // Multiples of 2^-8, to which a step of 2^-7 is added exactly.
    const auto coarse = [&] { return static_cast<float>(random.between(-300, 300)) / 256; };
    for (index_t i = 0; i < table.size(); ++i) table.data()[i] = coarse();
    for (index_t head = 0; head < 4; ++head) {
      slopes.push_back(coarse()), logits.push_back(coarse()), more_logits.push_back(coarse());
    }
  }

  [[nodiscard]] double factor(position const& at) const {
    const double own = static_cast<double>((at.batch * 37 + at.head * 11 + at.query * 7 + at.key * 3) % 10) / 10;
    return keep_below >= 1 ? 1 : own < keep_below ? 1 / keep_below : 0;
  }

  template <class Rule>
  [[nodiscard]] double loss(Rule const& rule) const {
    const auto found = reference::solve(query, key, value, rule, options);
    double sum = 0;
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 4; ++h) {
        for (index_t i = 0; i < 3; ++i) {
          if (found.lse(b, h, i) > -1e300) sum += d_lse(b, h, i) * found.lse(b, h, i);
          for (index_t j = 0; j < 5; ++j) {
            const double weight = found.weights(b, h, i, j) * factor({b, h, i, j, 0});
            for (index_t d = 0; d < 2; ++d) sum += d_out(b, h, i, d) * weight * value(b, h / 2, j, d);
          }
        }
      }
    }
    return sum;
  }
};

/// One number after the other is moved to both sides.
template <class Number, class Rule, class Gradient>
void expect_slopes(inputs& in, Number* numbers, index_t count, Rule const& rule, Gradient const* found,
                   char const* what) {
  for (index_t i = 0; i < count; ++i) {
    const Number before = numbers[i];
    const auto moved = [&](double step) {
      numbers[i] = static_cast<Number>(static_cast<double>(before) + step);
      return in.loss(rule);
    };
    const double step = 0x1p-7;
    const double slope = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step);
    numbers[i] = before;
    ASSERT_NEAR(found[i], slope, 2e-7 * (1 + std::fabs(slope))) << what << " " << i;
  }
}

template <class Rule>
reference::gradient_answer<double> check(inputs& in, Rule const& rule) {
  const auto factors = [&](position const& at) { return in.factor(at); };
  auto found = reference::solve_backward(in.query, in.key, in.value, in.d_out, rule, in.options, in.d_lse, factors);
  expect_slopes(in, in.query.data(), in.query.size(), rule, found.dq.data(), "dq");
  expect_slopes(in, in.key.data(), in.key.size(), rule, found.dk.data(), "dk");
  expect_slopes(in, in.value.data(), in.value.size(), rule, found.dv.data(), "dv");
  return found;
}

TEST(ReferenceBackward, Plain) {
  inputs in;
  check(in, no_mask{});
  in.options.scale = -0.7;
  check(in, causal{});
  in.options.scale = 0.0;
  check(in, causal{});
}

TEST(ReferenceBackward, MasksAndAnchors) {
  inputs in;
  const std::vector<index_t> query_len{3, 2}, key_len{4, 5}, ids{0, 0, 1, 1, 1};
  check(in, causal{} & lengths{.query = query_len, .key = key_len});
  check(in, window{.left = 1, .right = 0} & documents{.ids = ids});
  in.options.anchor = at_offset(-1);  // an empty row
  check(in, causal{});
}

TEST(ReferenceBackward, SoftCap) {
  inputs in;
  in.options.softcap = 0.8;
  check(in, causal{});
}

TEST(ReferenceBackward, Dropout) {
  inputs in;
  in.keep_below = 0.6;
  check(in, causal{});
}

TEST(ReferenceBackward, Biases) {
  inputs in;
  const double hidden = -std::numeric_limits<double>::infinity();
  in.row_terms(1, 2) = in.head_terms(0, 3, 0, 1) = hidden;
  const auto rule = bias(in.row_terms) & causal{} & bias(in.head_terms);
  const auto found = check(in, rule);
  ASSERT_EQ(found.biases.size(), 2u);
  EXPECT_EQ(found.biases[0].extent(1), 1);
  EXPECT_EQ(found.biases[0](0, 0, 1, 2), 0);
  EXPECT_EQ(found.biases[1](0, 3, 0, 1), 0);
  expect_slopes(in, in.row_terms.data(), 7, rule, found.biases[0].data(), "first bias");  // up to the hidden one
  expect_slopes(in, in.head_terms.data(), 16, rule, found.biases[1].data(), "second bias");
}

TEST(ReferenceBackward, SlopesTablesAndSinks) {
  inputs in;
  const auto rule = relative_bias{.table = in.table, .max_distance = 4} & sink{in.logits} & alibi{in.slopes} &
                    causal{} & sink{in.more_logits};
  in.options.anchor = at_offset(-1);  // a row that sees the sinks only
  const auto found = check(in, rule);
  ASSERT_EQ(found.tables.size(), 1u);
  ASSERT_EQ(found.slopes.size(), 1u);
  ASSERT_EQ(found.sinks.size(), 2u);
  expect_slopes(in, in.table.data(), in.table.size(), rule, found.tables[0].data(), "table");
  expect_slopes(in, in.slopes.data(), 4, rule, found.slopes[0].data(), "slopes");
  expect_slopes(in, in.logits.data(), 4, rule, found.sinks[0].data(), "first sink");
  expect_slopes(in, in.more_logits.data(), 4, rule, found.sinks[1].data(), "second sink");
}

TEST(ReferenceBackward, FunctorsInTheChain) {
  inputs in;
  const auto bends = [](auto score, position at) {
    using number = decltype(score);
    return score + number(0.1) * score * score - static_cast<number>(at.key % 2);
  };
  const auto flattens = [](auto score, position) { return 2 * heed::tanh(score / 2); };
  const auto slope = [](auto score, position) {
    const auto bent = heed::tanh(score / 2);
    return 1 - bent * bent;
  };
  const auto rule = bias(in.row_terms) & score_fn(bends) & alibi{in.slopes} & score_fn(flattens) & bias(in.head_terms);
  in.options.softcap = 2.0;
  const auto found = check(in, rule);
  expect_slopes(in, in.row_terms.data(), 15, rule, found.biases[0].data(), "first bias");
  expect_slopes(in, in.slopes.data(), 4, rule, found.slopes[0].data(), "slopes");
  expect_slopes(in, in.head_terms.data(), 20, rule, found.biases[1].data(), "second bias");

  // The derivative by hand, and the one by differences.
  const auto by_hand = reference::solve_backward(
      in.query, in.key, in.value, in.d_out,
      bias(in.row_terms) & score_fn(bends) & alibi{in.slopes} & score_fn(flattens, slope) & bias(in.head_terms),
      in.options, in.d_lse);
  for (index_t i = 0; i < found.dq.size(); ++i) EXPECT_NEAR(found.dq.data()[i], by_hand.dq.data()[i], 1e-11);
}

TEST(ReferenceBackward, NothingOfAnEmptyRowIsRead) {
  inputs in;
  tensor<bool, 2> keep({3, 5});
  for (index_t j = 0; j < 5; ++j) keep(0, j) = keep(2, j) = j != 3;
  const auto clean = reference::solve_backward(in.query, in.key, in.value, in.d_out, keep_mask(keep));
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 4; ++h) {
      in.query(b, h, 1, 0) = in.d_out(b, h, 1, 1) = not_a_number;
      in.key(b, h / 2, 3, 1) = in.value(b, h / 2, 3, 0) = not_a_number;
    }
  }
  const auto soiled = reference::solve_backward(in.query, in.key, in.value, in.d_out, keep_mask(keep));
  for (index_t i = 0; i < clean.dq.size(); ++i) EXPECT_EQ(clean.dq.data()[i], soiled.dq.data()[i]);
  for (index_t i = 0; i < clean.dk.size(); ++i) EXPECT_EQ(clean.dk.data()[i], soiled.dk.data()[i]);
  for (index_t i = 0; i < clean.dv.size(); ++i) EXPECT_EQ(clean.dv.data()[i], soiled.dv.data()[i]);
  EXPECT_EQ(soiled.dq(0, 0, 1, 0), 0);
}

/// What keeps a rounded out finds the gradients of it, and not those of the exact one.
TEST(ReferenceBackward, ASavedOutIsRounded) {
  const inputs in;
  const auto exact = reference::solve_backward(in.query, in.key, in.value, in.d_out);
  const auto again = reference::solve_backward<double, double>(in.query, in.key, in.value, in.d_out);
  const auto coarse = reference::solve_backward<double, bfloat16>(in.query, in.key, in.value, in.d_out);
  double worst = 0;
  for (index_t i = 0; i < exact.dq.size(); ++i) {
    EXPECT_NEAR(exact.dq.data()[i], again.dq.data()[i], 1e-14);
    worst = std::fmax(worst, std::fabs(exact.dq.data()[i] - coarse.dq.data()[i]));
  }
  EXPECT_GT(worst, 1e-5);
  EXPECT_LT(worst, 1e-1);
}

TEST(ReferenceBackward, CanonicalData) {
  const auto found =
      reference::solve_backward(pattern<double>(31, 1, {2, 3, 5, 7}), pattern<double>(5, 20, {2, 3, 6, 7}),
                                pattern<double>(7, 30, {2, 3, 6, 4}), pattern<double>(11, 40, {2, 3, 5, 4}));
  EXPECT_NEAR(s7(found.dq), -1.53757613, 5e-9);
  EXPECT_NEAR(s7(found.dv), 6.6114172, 5e-8);
  const double first[] = {0.01313746, 0.009854475, -0.01233902, 0.007826995};
  for (index_t i = 0; i < 4; ++i) EXPECT_NEAR(found.dk.data()[i], first[i], 5e-9);
}

/// Public fault report I13: the second tile of keys under dropout.
TEST(ReferenceBackward, DropoutOfManyKeys) {
  const auto keeps = [](position const& at) { return (7 * at.query + 3 * at.key) % 5 != 0 ? 1 / 0.8 : 0.0; };
  const auto found =
      reference::solve_backward(pattern<double>(31, 1, {1, 1, 70, 2}), pattern<double>(5, 20, {1, 1, 70, 2}),
                                pattern<double>(7, 30, {1, 1, 70, 2}), pattern<double>(11, 40, {1, 1, 70, 2}), causal{},
                                {.scale = 2.0}, nullptr, keeps);
  EXPECT_NEAR(s7(found.dq), 0.772886408, 5e-9);
  EXPECT_NEAR(s7(found.dk), -0.489588763, 5e-9);
  EXPECT_NEAR(s7(found.dv), -1.37487714, 5e-8);
}

TEST(ReferenceBackward, LossOnLse) {
  tensor<double, 4> none({1, 1, 1, 1});
  const auto k = column<double>({1, 3});
  const tensor<double, 3> one = [] {
    tensor<double, 3> filled({1, 1, 1});
    filled(0, 0, 0) = 1;
    return filled;
  }();
  const auto found =
      reference::solve_backward(none, k, tensor<double, 4>({1, 1, 2, 1}), none, no_mask{}, {.scale = 1.0}, one);
  EXPECT_DOUBLE_EQ(found.dq(0, 0, 0, 0), 2);
  EXPECT_EQ(found.dk(0, 0, 0, 0), 0);
}

}  // namespace
