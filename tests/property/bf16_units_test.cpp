// The verbs over pairs of bfloat16, in vectors and on tiles, whichever this processor is fast at: forward and backward
// on each that it has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "heed/heed.hpp"
#include "support/bits.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

namespace {

using namespace heed;
using namespace heed::test;

struct unit {
  char const* name;
  detail::verbs<float> const& verb;
  detail::gradient_verbs<float> const& gradient;
};

/// The last is what they are compared with: the same operands, widened.
std::vector<unit> units_here() {
  std::vector<unit> units;
  if (detail::current_isa().level == detail::isa_level::v4) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const bool has_pairs = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 5)) != 0;
    if (has_pairs) units.push_back({"pairs", detail::v4_bf16::table<float>, detail::v4_bf16::gradient_table<float>});
    if (detail::current_bf16_unit() == detail::bf16_unit::tiles) {
      units.push_back({"tiles", detail::v4_amx::table<float>, detail::v4_amx::gradient_table<float>});
    }
  }
  units.push_back({"widened", detail::verbs_of<float, false>(false), detail::gradient_verbs_of<float, false>(false)});
  return units;
}

struct results {
  tensor<bfloat16, 4> out, dq, dk, dv;
  tensor<float, 3> lse;
};

struct operands {
  tensor<bfloat16, 4> query, key, value, d_out;

  operands(index_t group, index_t rows, index_t keys, index_t dim, index_t value_dim)
      : query(random_tensor<bfloat16>({2, 2 * group, rows, dim}, 1)),
        key(random_tensor<bfloat16>({2, 2, keys, dim}, 2)),
        value(random_tensor<bfloat16>({2, 2, keys, value_dim}, 3)),
        d_out(random_tensor<bfloat16>({2, 2 * group, rows, value_dim}, 4)) {}

  template <class Rule>
  [[nodiscard]] results run(unit const& on, Rule const& rule, attention_options const& options) const {
    using ready_type = typename detail::prepared_rule<Rule>::type;
    results found{tensor<bfloat16, 4>({2, query.extent(1), query.extent(2), value.extent(3)}),
                  tensor<bfloat16, 4>({2, query.extent(1), query.extent(2), query.extent(3)}),
                  tensor<bfloat16, 4>({2, 2, key.extent(2), key.extent(3)}),
                  tensor<bfloat16, 4>({2, 2, key.extent(2), value.extent(3)}),
                  tensor<float, 3>({2, query.extent(1), query.extent(2)})};
    const auto rule_verbs = detail::rule_verbs_of<float, ready_type>(detail::current_isa().level);
    const detail::fp_environment environment;
    {
      detail::problem call = detail::inputs_of(query, key, value, options);
      detail::set_outputs(call, into(found.out).lse(found.lse));
      detail::check_or_raise(call, rule, "test");
      const detail::prepared_rule<Rule> ready(rule, call);
      detail::forward<float>(call, detail::view_of(ready.rule()), rule_verbs, on.verb, nullptr);
    }
    const gradient_targets targets = gradients(found.dq, found.dk, found.dv);
    detail::backward_problem pass = detail::backward_inputs_of<Rule>(query, key, value, saved(found.out, found.lse),
                                                                     d_out, targets, options, environment);
    detail::require([&](detail::report& broken) { return detail::check_backward(pass, rule, broken); }, "test");
    const detail::prepared_rule<Rule> ready(rule, pass.call);
    const detail::kernel<float> run =
        detail::kernel_of<float>(pass.call, detail::view_of(ready.rule()), rule_verbs, on.verb);
    detail::noted_stages<Rule> noted = detail::note_stages(rule, pass);
    detail::gradient_call<float> all = detail::gradient_call_of<float>(
        run, on.gradient, detail::rule_gradient_of<float, ready_type>(detail::current_isa().level), pass, noted);
    detail::backward(all);
    return found;
  }
};

/// Two roundings of factors and one of the result, of the largest.
testing::AssertionResult are_close(tensor<bfloat16, 4> const& found, tensor<bfloat16, 4> const& right,
                                   char const* name) {
  double largest = 0, error = 0;
  for (index_t i = 0; i < right.size(); ++i) {
    const double one = static_cast<double>(static_cast<float>(right.data()[i]));
    const double other = static_cast<double>(static_cast<float>(found.data()[i]));
    largest = std::fmax(largest, std::fabs(one));
    error = std::isnan(other) ? std::numeric_limits<double>::infinity() : std::fmax(error, std::fabs(one - other));
  }
  if (error <= 0.02 * largest) return testing::AssertionSuccess();
  return testing::AssertionFailure() << name << " is off by " << error << " of " << largest;
}

testing::AssertionResult are_close(results const& found, results const& right) {
  for (auto const& result : {are_close(found.out, right.out, "out"), are_close(found.dq, right.dq, "dq"),
                             are_close(found.dk, right.dk, "dk"), are_close(found.dv, right.dv, "dv")}) {
    if (!result) return result;
  }
  return testing::AssertionSuccess();
}

template <class Rule>
void expect_right(operands const& given, Rule const& rule, attention_options const& options = {}) {
  const std::vector<unit> units = units_here();
  const results right = given.run(units.back(), rule, options);
  for (unit const& one : units) {
    EXPECT_TRUE(are_close(given.run(one, rule, options), right))
        << one.name << ", query " << given.query.extent(2) << " x " << given.query.extent(3) << ", value "
        << given.value.extent(2) << " x " << given.value.extent(3);
  }
}

TEST(Bf16Units, EdgesOfTilesAreRight) {
  for (index_t keys : {2, 15, 17, 32, 33, 59, 129, 300}) {
    for (index_t dim : {1, 15, 16, 33, 64}) {
      const index_t rows = 9 + (keys * 7 + dim) % 90;
      expect_right(operands(1, rows, keys, dim, keys == 59 ? dim + 3 : dim), no_mask{});
    }
  }
}

TEST(Bf16Units, RulesAndOptionsAreRight) {
  const operands given(3, 130, 190, 40, 24);
  const std::vector<float> slopes = alibi_slopes(6), logits = {0, 1, -1, 2, 0, 1};
  const std::vector<index_t> begins = {7, 2}, ends = {173, 40};
  expect_right(given, causal{});
  expect_right(given, causal{}, {.anchor = top_left});
  expect_right(given, causal{} & window{.left = 37}, {.softcap = 3.0});
  expect_right(given, lengths{.key = ends, .key_start = begins});
  expect_right(given, alibi{slopes} & sink{logits} & causal{}, {.scale = -0.2});
  expect_right(given, score_fn([](auto score, position) { return heed::tanh(score); }), {.threads = 2});
}

/// Keys and rows that nobody sees, amid others: not a bit may differ.
TEST(Bf16Units, WhatIsHiddenChangesNothing) {
  const auto sees = [](index_t row, index_t key) { return row % 7 != 3 && key % 5 != 2 && (row + key) % 3 != 0; };
  const auto rule = mask_fn([=](position const& at) { return sees(at.query, at.key); }) & causal{};
  const operands clean(2, 70, 90, 33, 20);
  for (float garbage : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    operands soiled = clean;
    const auto fill_row = [&](tensor<bfloat16, 4>& of, index_t row) {
      for (index_t b = 0; b < 2; ++b) {
        for (index_t h = 0; h < of.extent(1); ++h) {
          for (index_t d = 0; d < of.extent(3); ++d) of(b, h, row, d) = bfloat16(garbage);
        }
      }
    };
    for (index_t key = 2; key < 90; key += 5) fill_row(soiled.key, key), fill_row(soiled.value, key);
    for (index_t row = 3; row < 70; row += 7) fill_row(soiled.d_out, row);
    for (unit const& one : units_here()) {
      const results right = clean.run(one, rule, {}), found = soiled.run(one, rule, {});
      EXPECT_TRUE(same_bits(right.out, found.out)) << one.name;
      EXPECT_TRUE(same_bits(right.dq, found.dq)) << one.name;
      EXPECT_TRUE(same_bits(right.dk, found.dk)) << one.name;
      EXPECT_TRUE(same_bits(right.dv, found.dv)) << one.name;
    }
  }
}

/// Lanes past the last row repeat it, but no mask has been asked about them: what they would weigh may be infinite.
TEST(Bf16Units, LanesWithoutARowAddNothing) {
  for (index_t rows : {2, 6, 16, 34, 48}) {
    operands given(1, rows, 40, 8, 8);
    for (index_t d = 0; d < 8; ++d) {
      given.query(0, 0, rows - 1, d) = given.query(0, 0, rows - 2, d) = bfloat16(4.0f);
      given.key(0, 0, 0, d) = bfloat16(16.0f);
    }
    const std::vector<index_t> query_len = {rows - 1, rows - 1};
    tensor<bool, 2> keep({rows, 40});  // has words on the row that does not exist, too
    for (index_t row = 0; row < rows; ++row) {
      for (index_t key = 0; key < 40; ++key) keep(row, key) = key != 0 || row == rows - 1;
    }
    expect_right(given, lengths{.query = query_len} & keep_mask(keep));
  }
}

/// lse is as large as the scores are: what a score differs from it may not drown in its rounding.
TEST(Bf16Units, HugeScoresHaveTheWeightsOfTheForwardPass) {
  for (float size : {100.0f, 3000.0f, 1e6f, 1e15f}) {
    for (bool by_scale : {false, true}) {
      operands given(1, 64, 64, 32, 32);
      for (index_t i = 0; !by_scale && i < given.query.size(); ++i) {
        given.query.data()[i] = bfloat16(static_cast<float>(given.query.data()[i]) * size);
      }
      const attention_options options{.scale = by_scale ? double{size} : 0.2};
      const std::vector<unit> units = units_here();
      const results right = given.run(units.back(), no_mask{}, options);
      for (unit const& one : units) {
        const results found = given.run(one, no_mask{}, options);
        EXPECT_TRUE(are_close(found.out, right.out, "out")) << one.name << ", " << size;
        EXPECT_TRUE(are_close(found.dv, right.dv, "dv")) << one.name << ", " << size;
      }
    }
  }
}

/// Also one whose payload would carry into its sign if it were rounded.
TEST(Bf16Units, VisibleNanReachesTheRowsThatSeeIt) {
  for (std::uint32_t payload : {0x7fc00000u, 0x7fffffffu, 0xffffffffu}) {
    float number;
    std::memcpy(&number, &payload, sizeof number);
    const operands given(1, 48, 64, 32, 32);
    tensor<float, 4> terms({1, 1, 48, 64});
    terms(0, 0, 5, 7) = number;
    for (unit const& one : units_here()) {
      const results found = given.run(one, bias(terms), {});
      for (auto const* rows : {&found.out, &found.dq}) {
        EXPECT_TRUE(std::isnan(static_cast<float>((*rows)(0, 0, 5, 3)))) << one.name << ", " << payload;
        EXPECT_FALSE(std::isnan(static_cast<float>((*rows)(0, 0, 6, 3)))) << one.name << ", " << payload;
      }
      for (auto const* rows : {&found.dk, &found.dv}) {
        EXPECT_TRUE(std::isnan(static_cast<float>((*rows)(0, 0, 7, 3)))) << one.name << ", " << payload;
      }
    }
  }
}

/// The verb for what may be infinite, where nothing is.
TEST(Bf16Units, KeyGradientsOfWhatAllSeeHaveTheSameBits) {
  constexpr index_t keys = 19, columns = 32;
  for (unit const& one : units_here()) {
    if (one.gradient.round_rows == nullptr) continue;
    for (index_t rows = 1; rows <= 48; ++rows) {
      const int vectors = static_cast<int>((rows + 15) / 16);
      const index_t lanes = 16 * vectors;
      alignas(64) float tile[keys * 48], scores[keys * 48] = {}, words[keys * 24], from[26 * columns];
      alignas(64) float plain[keys * columns] = {}, careful[keys * columns] = {};
      const auto numbers = random_tensor<float>({1, 1, keys, 48}, 21);
      for (index_t i = 0; i < keys * lanes; ++i) tile[i] = numbers.data()[i];
      const auto row_values = random_tensor<bfloat16>({1, 1, rows, columns}, 22);
      one.gradient.pair_rows(row_values.data(), columns, 1, rows, columns, columns, from);
      one.gradient.round_rows(tile, lanes, vectors, rows, keys, words);
      one.gradient.key_gradients(words, lanes / 2, keys, from, rows, columns, plain);
      one.gradient.key_gradients_visible(words, lanes / 2, scores, lanes, keys, from, rows, columns, careful);
      for (index_t i = 0; i < keys * columns; ++i) ASSERT_EQ(plain[i], careful[i]) << one.name << ", rows " << rows;
    }
  }
}

/// Sums over rows that cancel, so that a sum cut elsewhere is another number: the first vector of rows sees half of the
/// keys, and NaN in a value that no row sees may not make the others of its block whole.
TEST(Bf16Units, AKeyThatNoRowSeesLeavesTheBordersOfSums) {
  constexpr index_t rows = 48, keys = 65;
  operands given(1, rows, keys, 32, 32);
  tensor<bool, 2> keep({rows, keys});
  for (index_t row = 0; row < rows; ++row) {
    for (index_t key = 0; key < keys; ++key) keep(row, key) = key < (row < 16 ? 32 : 64);
  }
  for (index_t i = 0; i < given.query.size(); ++i) given.query.data()[i] = bfloat16(0.0f);  // all weights are equal
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 2; ++h) {
      for (index_t row = 0; row < rows; ++row) {
        const float size = row == 17 ? 0x1p32f : row == 47 ? -0x1p32f : 64.0f;
        for (index_t d = 0; d < 32; ++d) given.d_out(b, h, row, d) = bfloat16(size);
      }
    }
  }
  for (unit const& one : units_here()) {
    const results right = given.run(one, keep_mask(keep), {});
    operands soiled = given;
    for (index_t b = 0; b < 2; ++b) soiled.value(b, 0, 64, 0) = bfloat16(std::numeric_limits<float>::quiet_NaN());
    const results found = soiled.run(one, keep_mask(keep), {});
    EXPECT_TRUE(same_bits(right.dk, found.dk)) << one.name;
    EXPECT_TRUE(same_bits(right.dv, found.dv)) << one.name;
  }
}

TEST(Bf16Units, ThreadsChangeNothing) {
  const operands given(1, 700, 900, 64, 64);
  for (unit const& one : units_here()) {
    const results alone = given.run(one, causal{}, {.threads = 1}), together = given.run(one, causal{}, {.threads = 3});
    EXPECT_TRUE(same_bits(alone.dq, together.dq)) << one.name;
    EXPECT_TRUE(same_bits(alone.dk, together.dk)) << one.name;
    EXPECT_TRUE(same_bits(alone.dv, together.dv)) << one.name;
  }
}

/// What takes part in the backward pass of bfloat16, and what switches the dot product off.
TEST(Bf16Units, TheBackwardPassUsesTheFastOneWhereItsRoundingIsHidden) {
  const operands given(1, 40, 50, 16, 16);
  tensor<bfloat16, 4> out({2, 2, 40, 16}), dq = out, dk({2, 2, 50, 16}), dv = dk;
  tensor<float, 4> wide({2, 2, 40, 16}), wide_dk({2, 2, 50, 16});
  tensor<float, 3> lse({2, 2, 40});
  const auto says = [&](auto const& d_out, gradient_targets const& targets, attention_options const& options = {}) {
    return explain(given.query, given.key, given.value, saved(out, lse), d_out, targets, options);
  };
  EXPECT_TRUE(has_line(says(given.d_out, gradients(dq, dk, dv)), line_of_fast_bf16()));
  EXPECT_TRUE(has_line(says(given.d_out, gradients(nullptr, dk, dv)), line_of_fast_bf16()));
  EXPECT_TRUE(has_line(says(given.d_out, gradients(dq, dk, dv), {.precise = true}), "bf16_dot: off"));
  EXPECT_TRUE(has_line(says(given.d_out, gradients(dq, dk, dv), {.drop = {.p = 0.5}}), "bf16_dot: off"));
  EXPECT_TRUE(has_line(says(given.d_out, gradients(dq, wide_dk, dv)), "bf16_dot: off"));
  EXPECT_TRUE(has_line(says(wide, gradients(dq, dk, dv)), "bf16_dot: off"));
}

}  // namespace
#endif
