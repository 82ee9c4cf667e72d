// Gradients back through the stages of a rule, at every level of this machine, against the chain rule written out; and
// that a functor's derivative is computed in vectors.
#include "heed/cpu/verb/rule_gradient.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/cpu/prepare.hpp"
#include "heed/cpu/table.hpp"
#include "heed/heed.hpp"
#include "support/disassembly.hpp"
#include "support/random.hpp"
#include "support/sanitizers.hpp"

namespace {

using heed::index_t;
using heed::position;
using heed::detail::rule_gradient_of;

// Three functors, and their derivatives as a reader would write them.
struct soft {
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return Real(2) * heed::tanh(score * Real(0.5)) + score * Real(at.key % 3);
  }
  static double derivative(double score, index_t key) {
    const double t = std::tanh(score / 2);
    return 1 - t * t + static_cast<double>(key % 3);
  }
};
struct square {
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return score - score * score * Real(0.0625) + Real(at.query & 1);
  }
  static double derivative(double score) { return 1 - score * 0.125; }
};
struct by_key {  // cannot be copied byte by byte
  std::vector<float> factors;
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return score * factors[static_cast<std::size_t>(at.key)];
  }
};

constexpr index_t seq_len_q = 29, seq_len_kv = 50, num_heads = 2, batch_size = 2;
constexpr heed::block area{1, 1, 3, 24, 5, 42, 6};
constexpr index_t rows = area.query_end - area.query_begin, keys = area.key_end - area.key_begin;

template <class Real>
struct tile {
  int lanes_of_vector, vectors;
  index_t lanes;
  alignas(64) Real scores[keys * 32], gradient[keys * 32], stages[3][keys * 32];

  explicit tile(std::uint64_t seed) {
    using heed::detail::isa_level;
    const isa_level level = heed::detail::current_isa().level;
    lanes_of_vector = (level == isa_level::v4 ? 64 : level == isa_level::v3 ? 32 : 16) / static_cast<int>(sizeof(Real));
    vectors = static_cast<int>(heed::detail::ceil_div(rows, lanes_of_vector));
    lanes = index_t{vectors} * lanes_of_vector;
    heed::test::random_source random(seed);
    for (index_t i = 0; i < keys * 32; ++i) {
      scores[i] = static_cast<Real>(3 * random.normal());
      gradient[i] = static_cast<Real>(random.normal());
    }
  }
  [[nodiscard]] index_t place(index_t row, index_t key) const { return key * lanes + row; }

  template <class Rule>
  void pull_back(Rule const& rule, heed::detail::block_terms<Real> const& terms, Real* const* stage_gradients) {
    const heed::detail::fp_environment environment;
    rule_gradient_of<Real, Rule>(heed::detail::current_isa().level)(&rule, scores, gradient, lanes, vectors, area,
                                                                    terms, stage_gradients);
  }
};

template <class Real>
void expect_the_chain_rule() {
  const std::vector<float> slopes = {0.5f, 0.03125f};
  heed::tensor<float, 2> table({8, num_heads});
  for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<float>(i % 5) * 0.25f - 0.5f;
  const auto terms = heed::test::random_tensor<Real>({batch_size, num_heads, seq_len_q, seq_len_kv}, 7);
  by_key last;
  for (index_t key = 0; key < seq_len_kv; ++key) last.factors.push_back(static_cast<float>(key % 7) - 2.0f);

  const heed::alibi sloped{.slopes = slopes};
  const heed::relative_bias relative{.table = table, .max_distance = 32};
  const auto rule = heed::score_fn(soft{}) & sloped & heed::causal{} & heed::score_fn(square{}) & heed::bias(terms) &
                    relative & heed::score_fn(last);
  heed::detail::problem call;
  call.batch_size = batch_size;
  call.num_heads = num_heads;
  call.seq_len_q = seq_len_q;
  call.seq_len_kv = seq_len_kv;
  call.query.kind = heed::element_kind_of<Real>;
  call.options.threads = 1;
  const heed::detail::prepared_rule<std::remove_const_t<decltype(rule)>> prepared(rule, call);
  using prepared_type = std::remove_cvref_t<decltype(prepared.rule())>;
  static_assert(heed::detail::differentiable_stages<prepared_type> == 3 && heed::detail::bends<prepared_type>);

  const heed::detail::term_rows<Real> first{&terms(area.batch, area.head, area.query_begin, area.key_begin),
                                            terms.stride(2)};
  tile<Real> given(3), got = given;
  Real* const stages[] = {got.stages[0], got.stages[1], got.stages[2]};
  got.pull_back(prepared.rule(), {&first, 0, 0}, stages);

  const double bound = sizeof(Real) == 4 ? 2e-4 : 1e-12;
  for (index_t row = 0; row < rows; ++row) {
    for (index_t key = 0; key < keys; ++key) {
      const index_t i = row + area.query_begin, j = key + area.key_begin, place = given.place(row, key);
      const position at{area.batch, area.head, i, j, area.offset};
      const double score = static_cast<double>(given.scores[place]);
      const double penalty = static_cast<double>(slopes[1]) * std::fabs(static_cast<double>(i + area.offset - j));
      const double before_square = soft{}(score, at) - penalty;
      const double at_bias =
          static_cast<double>(given.gradient[place]) * static_cast<double>(last.factors[static_cast<std::size_t>(j)]);
      const double at_alibi = at_bias * square::derivative(before_square);
      const double back = at_alibi * soft::derivative(score, j);
      ASSERT_NEAR(static_cast<double>(got.stages[0][place]), at_alibi, bound * (1 + std::fabs(at_alibi)));
      ASSERT_NEAR(static_cast<double>(got.stages[1][place]), at_bias, bound * (1 + std::fabs(at_bias)));
      ASSERT_EQ(got.stages[2][place], got.stages[1][place]);
      ASSERT_NEAR(static_cast<double>(got.gradient[place]), back, bound * (1 + std::fabs(back)));
    }
  }

  // The same without what is not asked for.
  tile<Real> less = given;
  Real* const some[] = {nullptr, less.stages[1], nullptr};
  less.pull_back(prepared.rule(), {&first, 0, 0}, some);
  tile<Real> least = given;
  least.pull_back(prepared.rule(), {&first, 0, 0}, nullptr);
  for (index_t i = 0; i < keys * got.lanes; ++i) {
    EXPECT_EQ(less.gradient[i], got.gradient[i]);
    EXPECT_EQ(less.stages[1][i], got.stages[1][i]);
    EXPECT_EQ(least.gradient[i], got.gradient[i]);
  }
}

TEST(RuleGradient, FollowsTheChainRule) {
  expect_the_chain_rule<float>();
  expect_the_chain_rule<double>();
}

TEST(RuleGradient, OfZeroIsZeroWhateverTheScore) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto rule = heed::score_fn([](auto s, position) { return heed::log(s) / s; }) & heed::score_fn(square{});
  tile<float> one(5);
  for (index_t i = 0; i < keys * one.lanes; ++i) {
    const float bad[] = {inf, -inf, nan, 0.0f, -1.0f};
    one.scores[i] = bad[i % 5];
    one.gradient[i] = 0;
  }
  one.pull_back(rule, {nullptr, 0, 0}, nullptr);
  for (index_t i = 0; i < keys * one.lanes; ++i) EXPECT_EQ(one.gradient[i], 0.0f);
}

TEST(RuleGradient, UsesTheDerivativeThatIsGiven) {
  const auto rule = heed::score_fn([](float s, position) { return s; }, [](float s, position) { return s + 10; });
  tile<double> given(8), got = given;
  got.pull_back(rule, {nullptr, 0, 0}, nullptr);
  for (index_t i = 0; i < keys * got.lanes; ++i) {
    EXPECT_NEAR(got.gradient[i], given.gradient[i] * (given.scores[i] + 10), 1e-4);
  }
}

TEST(RuleGradient, IsThereOnlyForRulesThatBend) {
  const heed::detail::isa_level level = heed::detail::current_isa().level;
  using added = decltype(heed::alibi{} & heed::causal{} & heed::sink{});
  EXPECT_EQ((rule_gradient_of<float, added>(level)), nullptr);
  EXPECT_EQ((rule_gradient_of<double, heed::no_mask>(level)), nullptr);
  EXPECT_EQ(heed::detail::differentiable_stages<added>, 1);
  EXPECT_NE((rule_gradient_of<float, heed::score_fn<square>>(level)), nullptr);
}

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !HEED_TEST_ASAN && !HEED_TEST_TSAN

// Functors as users write them.
struct vector_linear {
  HEED_INLINE auto operator()(auto s, position) const { return s * 0.5f + 1; }
};
struct vector_quadratic {
  HEED_INLINE auto operator()(auto s, position) const { return s + 0.1f * s * s; }
};
struct vector_capped {
  HEED_INLINE auto operator()(auto s, position) const { return 30 * heed::tanh(s / 30); }
};
struct vector_selected {
  HEED_INLINE auto operator()(auto s, position at) const { return heed::select(at.key < 4, s, s - 1); }
};
struct vector_peaked {
  HEED_INLINE auto operator()(auto s, position) const { return s * heed::exp(-heed::abs(s)); }
};

/// Called, so that the program has its doors; the slope at 0.
template <class Function>
float used() {
  tile<float> one(9);
  one.scores[0] = 0;
  one.gradient[0] = 1;
  one.pull_back(heed::score_fn(Function{}), {nullptr, 0, 0}, nullptr);
  return one.gradient[0];
}

// Arithmetic on one float, or a call.
std::string scalar_line(disassembly::routine const& routine) {
  for (auto const& line : routine.lines) {
    const std::string mnemonic = line.substr(0, line.find(' '));
    for (char const* operation : {"addss", "subss", "mulss", "divss", "comiss", "cmpss", "call"}) {
      if (mnemonic.find(operation) != std::string::npos) return line;
    }
  }
  return {};
}

TEST(RuleGradient, OfAFunctorIsComputedInVectors) {
  EXPECT_EQ(used<vector_linear>(), 0.5f);
  EXPECT_EQ(used<vector_quadratic>(), 1.0f);
  EXPECT_EQ(used<vector_capped>(), 1.0f);
  EXPECT_EQ(used<vector_selected>(), 1.0f);
  EXPECT_EQ(used<vector_peaked>(), 1.0f);
  int seen = 0;
  for (auto const& routine : disassembly::disassemble(HEED_OBJDUMP, disassembly::own_path())) {
    const auto named = [&](char const* word) { return routine.name.find(word) != std::string::npos; };
    if (!named("::vector_")) continue;
    for (auto const& [level, whole] : {std::pair("v3::rule_gradient<", "%ymm"), {"v4::rule_gradient<", "%zmm"}}) {
      if (!named(level)) continue;
      EXPECT_NE(disassembly::line_with(routine, whole), "") << routine.name;
      EXPECT_EQ(scalar_line(routine), "") << routine.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2 * 5);
}

#endif

}  // namespace
