// Gradients of any masks, stages and options together: every pair of them, and larger subsets drawn at random; each by
// the way that it should take.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/expected_path.hpp"
#include "support/run_gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// What a forward pass may write besides is no part of a backward pass.
constexpr bool is_output(int one) {
  return one >= static_cast<int>(part::lse) && one <= static_cast<int>(part::biased);
}

/// Of operands that lie as those of run_gradients do.
template <class T, class Rule>
void expect_way(combination const& given, Rule const& rule) {
  SCOPED_TRACE(testing::Message() << given.these << "of " << type_name<T>() << " " << given.sizes);
  const scenario_inputs<T, T, T> in(given.sizes);
  const gradient_buffers<T> buffers(given.sizes);
  const std::string told = explain(
      in.query.view(), in.key.view(), in.value.view(), saved(buffers.out.view(), buffers.lse.lse3()),
      buffers.d_out.view(), gradients(buffers.dq.view(), buffers.dk.view(), buffers.dv.view()), rule, given.options());
  call_facts facts{
      element_kind_of<T>, detail::operand_of(in.key.view()), detail::operand_of(in.value.view()), true, {}};
  while (detail::operand const* const terms = detail::terms_of(rule, static_cast<int>(facts.terms.size()))) {
    facts.terms.push_back(*terms);
  }
  EXPECT_TRUE(takes_its_way_back(told, given, facts, detail::bends<Rule>));
}

/// With the rule of all rules, or with that of all but functors.
template <class T>
void run(combination const& given) {
  const every_rule everything(given);
  const auto judge = [&](auto const& rule) {
    run_gradients<T>(given, everything, rule);
    expect_way<T>(given, rule);
  };
  if (given.these.has(part::score_fn) || given.these.has(part::second_score_fn)) return judge(everything.rule());
  judge(everything.rule_of_terms());
}

void run_any(parts const& these, std::uint64_t seed) {
  scenario s = combination::drawn(these, seed);
  if (s.keys > 150) s.keys /= 2;
  const combination given(these, s);
  switch (seed % 7) {
    case 0:
    case 1: return run<double>(given);
    case 2: return run<bfloat16>(given);
    default: return run<float>(given);
  }
}

TEST(GradientCombinations, EveryPair) {
  std::uint64_t seed = 800000;
  for (int one = 0; one < part_count; ++one) {
    for (int other = one; other < part_count; ++other) {  // equal: that part alone
      parts these;
      these.add(one), these.add(other);
      if (is_output(one) || is_output(other) || !these.is_possible() || ++seed % thinned != 0) continue;
      run_any(these, seed);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// HEED_ORACLE_TIMES that many times as many.
TEST(GradientCombinations, LargerSubsets) {
  std::uint64_t count = 120;
  if (char const* const times = std::getenv("HEED_ORACLE_TIMES")) count *= std::strtoull(times, nullptr, 10);
  for (std::uint64_t seed = 810000; seed < 810000 + count; seed += thinned) {
    random_source random(seed * 17 + 3);
    parts these;
    do {
      these = {};
      for (int one = 0; one < part_count; ++one) {
        if (!is_output(one) && random.chance(one < first_stage ? 0.22 : one < first_option ? 0.45 : 0.35))
          these.add(one);
      }
    } while (!these.is_possible());
    run_any(these, seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
