// Any masks, stages, options and outputs together: every pair of them, and larger subsets drawn at random, against the
// reference, which is told the same in its own words; and each by the way that it should take.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/combination.hpp"
#include "support/expected_path.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// One stage of the scores: what is hidden may be anything at the stages before the masks.
template <class Real, class Oracle>
void expect_scores(tensor_view<Real, 4> const& found, tensor<double, 4> const& truth, tensor<Real, 4> const& rival,
                   Oracle const& oracle, bool garbage, char const* name) {
  double bound = 0, largest = 0;
  for (index_t place = 0; place < truth.size(); ++place) {
    const double right = truth.data()[place];
    if (!std::isfinite(right)) continue;
    largest = std::fmax(largest, std::fabs(right));
    bound = std::fmax(bound, std::fabs(static_cast<double>(rival.data()[place]) - right));
  }
  bound = 4 * bound + 32 * epsilon<Real> * (1 + largest);
  for (index_t b = 0; b < truth.extent(0); ++b) {
    for (index_t h = 0; h < truth.extent(1); ++h) {
      for (index_t i = 0; i < truth.extent(2); ++i) {
        for (index_t j = 0; j < truth.extent(3); ++j) {
          const double right = truth(b, h, i, j), got = static_cast<double>(found(b, h, i, j));
          if (garbage && std::isnan(got) && !oracle.sees(b, h, i, j)) continue;
          if (right == got) continue;
          ASSERT_LE(std::fabs(got - right), bound)
              << name << " of " << b << ", " << h << ", " << i << ", " << j << " is " << got << ", must be " << right;
        }
      }
    }
  }
}

constexpr part stage_parts[] = {part::raw, part::capped, part::biased};
constexpr score_stage stages[] = {score_stage::raw, score_stage::capped, score_stage::biased};

/// What a call may write.
template <class T>
struct result_buffers {
  using accumulate = accumulate_of<T>;
  axes<4> square;
  stored<T> out, weights;
  stored<accumulate> lse, scores[3];

  explicit result_buffers(scenario const& s)
      : square{s.batch, s.heads, s.rows, s.keys},
        out({s.batch, s.heads, s.rows, s.value_dim}, s.out_layout),
        weights(square, s.weights_layout),
        lse({s.batch, s.heads, s.rows, 1}, s.lse_layout),
        scores{{square, s.out_layout}, {square, s.lse_layout}, {square, s.weights_layout}} {}

  [[nodiscard]] outputs wanted(parts const& these) {
    outputs to = into(out.view());
    if (these.has(part::lse)) to = to.lse(lse.lse3());
    if (these.has(part::weights)) to = to.weights(weights.view());
    for (std::size_t stage = 0; stage < 3; ++stage) {
      if (these.has(stage_parts[stage])) to = to.scores(scores[stage].view(), stages[stage]);
    }
    return to;
  }
};

template <class T>
void expect_way(combination const& given, scenario_inputs<T, T, T> const& in, result_buffers<T>& results) {
  const auto expect_of = [&](auto const& rule, call_facts const& facts) {
    const std::string told = explain(in.query.read_only(), in.key.read_only(), in.value.read_only(),
                                     results.wanted(given.these), rule, given.options());
    const detail::operand weights = detail::operand_of(results.weights.view());
    EXPECT_TRUE(takes_its_way(told, given, facts, given.these.has(part::weights) ? weights : detail::operand{}));
  };
  call_facts facts{element_kind_of<T>,
                   detail::operand_of(in.key.read_only()),
                   detail::operand_of(in.value.read_only()),
                   true,
                   {given.data.stages.dense().terms(), given.more.stages.dense().terms()}};
  expect_of(given.joined(), facts);
  // A rule without stages looks at fewer scores.
  facts.changes_scores = false, facts.terms.clear();
  if (!given.these.changes_scores()) expect_of(given.masks(), facts);
}

struct tally {
  index_t calls = 0, with_rows = 0;
};

template <class T>
void run(parts const& these, std::uint64_t seed, tally& so_far) {
  using accumulate = accumulate_of<T>;
  const combination given(these, seed);
  scenario const& s = given.sizes;
  testing::Message what;
  what << these << "of " << type_name<T>() << " " << s;
  SCOPED_TRACE(what);
  const attention_options options = given.options();
  const combination_oracle<accumulate> oracle(given);
  const auto truth_rule = oracle.rule();
  scenario_inputs<T, T, T> in(s);
  if (s.garbage) in.plant_garbage(s, truth_rule, options);

  result_buffers<T> results(s);
  attention(in.query.read_only(), in.key.read_only(), in.value.read_only(), results.wanted(these), given.joined(),
            options);
  expect_way(given, in, results);

  const verdict<accumulate> judge(in.exact_query, in.exact_key, in.exact_value, truth_rule, options);
  EXPECT_TRUE(judge.out(results.out.view()));
  EXPECT_TRUE(results.out.gaps_intact());
  if (these.has(part::lse)) {
    EXPECT_TRUE(judge.lse(results.lse.lse3()));
  }
  EXPECT_TRUE(these.has(part::lse) ? results.lse.gaps_intact() : results.lse.untouched());
  if (these.has(part::weights)) {
    EXPECT_TRUE(judge.weights(results.weights.view()));
  }
  EXPECT_TRUE(these.has(part::weights) ? results.weights.gaps_intact() : results.weights.untouched());
  for (std::size_t stage = 0; stage < 3; ++stage) {
    EXPECT_TRUE(these.has(stage_parts[stage]) ? results.scores[stage].gaps_intact()
                                              : results.scores[stage].untouched());
    if (!these.has(stage_parts[stage])) continue;
    tensor<double, 4> truth(results.square);
    tensor<accumulate, 4> rival(results.square);
    const tensor<accumulate, 4> query = converted<accumulate>(in.exact_query);
    tensor<double, 4> ignored({s.batch, s.heads, s.rows, s.value_dim});
    reference::attention<judge_of<accumulate>>(query, in.exact_key, in.exact_value,
                                               into(ignored).scores(truth, stages[stage]), truth_rule, options);
    reference::attention<accumulate>(query, in.exact_key, in.exact_value, into(ignored).scores(rival, stages[stage]),
                                     truth_rule, options);
    expect_scores<accumulate>(results.scores[stage].view(), truth, rival, oracle, s.garbage,
                              part_names[first_option + 7 + stage]);
  }
  ++so_far.calls;
  so_far.with_rows += oracle.seen() > 0;
}

void run_any(parts const& these, std::uint64_t seed, tally& so_far) {
  switch (seed % 5) {
    case 0: return run<double>(these, seed, so_far);
    case 1: return run<bfloat16>(these, seed, so_far);
    case 2: return run<half>(these, seed, so_far);
    default: return run<float>(these, seed, so_far);
  }
}

TEST(Combinations, EveryPair) {
  tally so_far;
  std::uint64_t seed = 500000;
  for (int one = 0; one < part_count; ++one) {
    for (int other = one; other < part_count; ++other) {  // equal: that part alone
      parts these;
      these.add(one), these.add(other);
      if (!these.is_possible()) continue;
      if (++seed % thinned == 0) run_any(these, seed, so_far);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(so_far.with_rows * 10, so_far.calls * 8);
  RecordProperty("calls", static_cast<int>(so_far.calls));
}

parts drawn_parts(std::uint64_t seed, double masks = 0.22) {
  random_source random(seed * 17 + 3);
  parts these;
  do {
    these = {};
    for (int one = 0; one < part_count; ++one) {
      if (random.chance(one < first_stage ? masks : one < first_option ? 0.45 : 0.35)) these.add(one);
    }
  } while (!these.is_possible());
  return these;
}

/// HEED_ORACLE_TIMES that many times as many.
std::uint64_t times_as_many(std::uint64_t count) {
  char const* const times = std::getenv("HEED_ORACLE_TIMES");
  return times == nullptr ? count : count * std::strtoull(times, nullptr, 10);
}

TEST(Combinations, LargerSubsets) {
  const std::uint64_t count = times_as_many(150);
  tally so_far;
  for (std::uint64_t seed = 600000; seed < 600000 + count; seed += thinned) {
    run_any(drawn_parts(seed), seed, so_far);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(so_far.with_rows * 10, so_far.calls * 6);
  RecordProperty("calls", static_cast<int>(so_far.calls));
}

template <class T>
int shared_threads(parts const& these, std::uint64_t seed) {
  scenario s = combination::drawn(these, seed);
  random_source random(seed);
  s.batch = s.kv_heads = 2;
  s.heads = 2 * random.between(1, 3);
  s.rows = random.between(80, 320);
  s.keys = random.between(100, 300);
  s.dim = s.value_dim = 40;
  s.threads = static_cast<int>(random.between(2, 7));
  const combination given(these, s);
  SCOPED_TRACE(testing::Message() << these << "of " << type_name<T>() << " " << s);
  const scenario_inputs<T, T, T> in(s);
  result_buffers<T> results(s);
  expect_way(given, in, results);
  return static_cast<int>(
      number_of(explain(in.query.read_only(), in.key.read_only(), in.value.read_only(), given.masks(), given.options()),
                "threads"));
}

// Several pieces of work for each thread, whose bounds are those of tiles.
TEST(Combinations, OfWorkThatThreadsShare) {
  const std::uint64_t count = times_as_many(30);
  std::uint64_t calls = 0, shared = 0;
  for (std::uint64_t seed = 700000; seed < 700000 + count; seed += thinned) {
    const parts these = drawn_parts(seed, 0.1);  // what is hidden repays no thread
    const int threads = seed % 3 == 0   ? shared_threads<float>(these, seed)
                        : seed % 3 == 1 ? shared_threads<double>(these, seed)
                                        : shared_threads<bfloat16>(these, seed);
    ++calls, shared += threads > 1;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(shared * 10, calls * 6);
}

}  // namespace
