// What explain says of each rule, and of the verbs that run: held against rules alone, and against what functors and
// verbs see when attention runs.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "heed/heed.hpp"
#include "support/cases.hpp"

namespace {

using heed::index_t;

/// What follows `start` in the line that begins with it.
std::string rest_of_line(std::string const& text, std::string const& start) {
  const auto begin = ("\n" + text).find("\n" + start);
  if (begin == std::string::npos) return "no such line";
  const auto behind = begin + start.size();
  return text.substr(behind, text.find('\n', behind) - behind);
}
std::string with_elements(std::string const& blocks, std::size_t elements) {
  return blocks + ", elements evaluated " + std::to_string(elements);
}

/// Operands of one call, and rules of every kind for them.
struct scene {
  index_t rows, keys;
  heed::tensor<float, 4> query, key, value, out;
  heed::tensor<bool, 2> keep, blocks;
  heed::tensor<double, 2> terms;
  heed::tensor<float, 2> table{{8, 4}};
  std::vector<index_t> ids, prefix_length = {70}, key_length;
  std::vector<float> per_head = {0.5f, 0.25f, 0.125f, 1};
  heed::attention_options options{.threads = 1};

  scene(index_t row_count, index_t key_count)
      : rows(row_count),
        keys(key_count),
        query(heed::test::pattern<float>(31, 1, {1, 4, rows, 16})),
        key(heed::test::pattern<float>(5, 20, {1, 2, keys, 16})),
        value(heed::test::pattern<float>(7, 30, {1, 2, keys, 24})),
        out({1, 4, rows, 24}),
        keep({rows, keys}),
        blocks({(rows + 31) / 32, (keys + 31) / 32}),
        terms({rows, keys}),
        key_length{keys / 3} {
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < keys; ++j) keep(i, j) = j / 100 == 0 || (j / 100 == 1 && (i * j) % 7 == 0);
    }
    for (index_t i = 0; i < blocks.extent(0); ++i) {
      for (index_t j = 0; j < blocks.extent(1); ++j) blocks(i, j) = (i + j) % 3 != 0;
    }
    for (index_t j = 0; j < keys; ++j) ids.push_back(j / 90);
  }
  template <class Rule>
  [[nodiscard]] std::string explained(Rule const& rule) const {
    return heed::explain(query, key, value, rule, options);
  }
};

/// The line of a rule in a joined one says what `blocks` says where the rule is alone.
TEST(ExplainRules, BlocksAreThoseOfTheRuleAlone) {
  using namespace heed;
  for (index_t rows : {index_t{200}, index_t{4}, index_t{1}}) {
    const scene at(rows, 300);
    const auto by_hand = mask_fn([](position where) { return where.key <= where.query + 7; },
                                 [](block const& area) { return area.key_begin > 200 ? cover::none : cover::partial; });
    const auto rules = std::tuple(causal{}, window{.left = 50}, prefix{.lengths = at.prefix_length},
                                  lengths{.key = at.key_length}, keep_mask(at.keep), drop_mask(at.keep), by_hand);
    const std::vector<std::string> names = {"causal",
                                            "window (left 50, right unbounded)",
                                            "prefix",
                                            "lengths",
                                            "keep_mask",
                                            "drop_mask",
                                            "mask_fn (copied into the kernel, with covers)"};
    std::vector<std::string> alone;
    const auto note = [&](auto const& rule) { alone.push_back(rest_of_line(at.explained(rule), "blocks: ")); };
    std::apply([&](auto const&... rule) { (note(rule), ...); }, rules);
    // Shorter lengths would move off, which others count from.
    scene anchored = at;
    anchored.options.anchor = at_offset(300 - rows);
    const std::string text = anchored.explained(std::apply([](auto const&... rule) { return (rule & ...); }, rules));
    std::string::size_type place = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string start = "rule: " + names[i] + ": blocks ";
      const std::string line = rest_of_line(text, start);
      EXPECT_EQ(line.substr(0, line.find(", elements")), alone[i]) << names[i] << "\n" << text;
      EXPECT_GT(text.find(start), place) << "the order written\n" << text;
      place = text.find(start);
    }
  }
}

TEST(ExplainRules, NamesEveryRule) {
  using namespace heed;
  const scene at(200, 300);
  const std::string held = "by reference";
  const auto named = [held](auto score, position) { return score + static_cast<float>(held.size()); };
  const auto kept = [held](position where) { return where.key != static_cast<index_t>(held.size()); };
  struct own_mask {
    [[nodiscard]] static cover covers(block const&) { return cover::full; }
    [[nodiscard]] static bool allows(position const&) { return true; }
  };
  const std::string text = at.explained(
      documents{.ids = at.ids} & block_sparse{.blocks = at.blocks, .block_rows = 32, .block_keys = 32} &
      alibi{.slopes = at.per_head} & bias(at.terms) & relative_bias{.table = at.table, .max_distance = 64} &
      sink{.logits = at.per_head} & score_fn([](auto score, position) { return score; }) & score_fn(named) &
      mask_fn(kept) & own_mask{} & window{.right = 3});
  std::vector<std::string> names;
  for (auto begin = text.find("rule: "); begin != std::string::npos; begin = text.find("rule: ", begin + 1)) {
    names.push_back(text.substr(begin + 6, text.find(": ", begin + 6) - begin - 6));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"documents", "block_sparse (32 x 32)", "alibi", "bias (float64)",
                                             "relative_bias (8 buckets, both directions, max_distance 64)", "sink",
                                             "score_fn (copied into the kernel)", "score_fn (by reference)",
                                             "mask_fn (by reference)", "custom mask (copied into the kernel)",
                                             "window (left unbounded, right 3)"}))
      << text;
  EXPECT_EQ(at.explained(no_mask{}).find("isa: "), 0u) << "the lines that every call has come first";
}

/// Functors note which scores they are asked about; nothing is asked twice by another name.
TEST(ExplainRules, ElementsAreThoseThatFunctorsSee) {
  using namespace heed;
  for (index_t rows : {index_t{200}, index_t{4}}) {
    const scene at(rows, 300);
    scene written = at;
    using places = std::set<std::tuple<index_t, index_t, index_t>>;
    places masked, staged;
    const auto mask = mask_fn(
        [&masked](position where) {
          masked.insert({where.head, where.query, where.key});
          return (where.query * where.key) % 5 != 0;
        },
        [](block const& area) { return area.key_end <= 64 ? cover::full : cover::partial; });
    const auto stage = score_fn([&staged](auto score, position where) {
      staged.insert({where.head, where.query, where.key});
      return score;
    });
    const std::string mask_line = "rule: mask_fn (copied into the kernel, with covers): ";
    const auto elements = [](std::string const& line) { return line.substr(line.find("elements")); };
    const auto expect = [&](auto const& rule, std::string const& total) {
      masked.clear();
      staged.clear();
      const std::string text = at.explained(rule);
      EXPECT_TRUE(masked.empty() && staged.empty()) << "a dry run";
      attention(at.query, at.key, at.value, written.out, rule, at.options);
      EXPECT_GT(masked.size(), 0u);
      EXPECT_EQ("elements evaluated " + std::to_string(masked.size()), elements(rest_of_line(text, mask_line))) << text;
      EXPECT_EQ(rest_of_line(text, "elements evaluated: "),
                std::to_string(staged.empty() ? masked.size() : staged.size()))
          << text;
      if (total.empty()) return;
      EXPECT_EQ(rest_of_line(text, total), with_elements("every visible score", staged.size())) << text;
    };
    expect(mask, "");
    expect(mask & causal{}, "");
    expect(stage & mask, "rule: score_fn (copied into the kernel): ");
    expect(mask & causal{} & stage & alibi{.slopes = at.per_head}, "rule: alibi: ");
    expect(mask & lengths{.key = at.key_length} & sink{.logits = at.per_head}, "");
    const std::string text = at.explained(mask & lengths{.key = at.key_length} & sink{.logits = at.per_head});
    EXPECT_EQ(rest_of_line(text, "rule: sink: "), with_elements("every row", 0)) << text;
    EXPECT_EQ(elements(rest_of_line(text, "rule: lengths: ")), "elements evaluated 0") << text;
  }
}

/// A verb that notes that it runs.
template <int Place, class Function>
struct noted_verb;
template <int Place, class Result, class... Arguments>
struct noted_verb<Place, Result (*)(Arguments...)> {
  static inline Result (*real)(Arguments...) = nullptr;
  static inline bool has_run = false;
  static Result call(Arguments... arguments) {
    has_run = true;
    return real(arguments...);
  }
};
/// Puts one in place of `slot`; answers whether it has run.
template <int Place, class Function>
auto noted(Function& slot) {
  using verb = noted_verb<Place, Function>;
  verb::real = slot;
  verb::has_run = false;
  if (slot != nullptr) slot = verb::call;
  return [] { return verb::has_run; };
}

/// Runs a call on verbs that note it: their names, joined as explain joins them.
template <class Rule>
std::string verbs_seen(scene& at, heed::outputs const& out, Rule const& rule) {
  using namespace heed::detail;
  problem call = inputs_of(at.query, at.key, at.value, at.options);
  set_outputs(call, out);
  check_or_raise(call, rule, "test");
  const prepared_rule<Rule> ready(rule, call);
  verbs<float> verb = verbs_of<float, false>(false);
  using ready_type = typename prepared_rule<Rule>::type;
  rule_verbs<float> rule_verb = rule_verbs_of<float, ready_type>(current_isa().level);
  row_verbs<float> const* const there =
      row_verbs_of<float, heed::element_kind::float32, heed::element_kind::float32>(current_isa().level);
  row_verbs<float> few{};
  if (there != nullptr) few = *there;
  const bool decodes_it = there != nullptr && decodes(call, &few, verb);
  const auto scores =
      std::tuple(noted<0>(verb.scores[0]), noted<1>(verb.scores[1]), noted<2>(verb.scores[2]), noted<3>(few.dot_rows));
  const auto cap = noted<4>(verb.cap_scores);
  const auto rules = noted<5>(rule_verb.apply);
  const auto softmax = std::tuple(noted<6>(verb.softmax[0]), noted<7>(verb.softmax[1]), noted<8>(verb.softmax[2]),
                                  noted<9>(few.softmax_rows));
  const auto sums = std::tuple(noted<10>(verb.accumulate[0]), noted<11>(verb.accumulate[1]),
                               noted<12>(verb.accumulate[2]), noted<13>(few.add_rows));
  const auto merge = noted<14>(few.merge_rows);
  const auto weigh = noted<15>(verb.weigh_rows);
  const auto probabilities = noted<16>(verb.probabilities);
  const auto drop = noted<17>(verb.drop);
  if (decodes_it) {
    decode_call<float>(kernel_of<float>(call, view_of(ready.rule()), rule_verb, verb), few).run();
  } else {
    forward<float>(call, view_of(ready.rule()), rule_verb, verb, nullptr);
  }
  std::string text;
  const auto add = [&](bool has_run, std::string const& name) {
    if (has_run) text += (text.empty() ? "" : ", ") + name;
  };
  const auto any = [](auto const& all) { return std::apply([](auto const&... one) { return (one() || ...); }, all); };
  add(any(scores), decodes_it ? "dot_rows" : "scores");
  add(cap(), "cap_scores");
  add(rules(), "rule");
  add(any(softmax), decodes_it ? "softmax_rows" : "softmax");
  add(drop(), "drop");
  add(any(sums), decodes_it ? "add_rows" : "accumulate");
  add(merge(), "merge_rows");
  add(weigh(), "weigh_rows");
  add(probabilities(), "probabilities");
  return text.empty() ? "none" : text;
}

TEST(ExplainRules, NamesTheVerbsThatRun) {
  using namespace heed;
  for (auto const& [rows, keys] : {std::pair<index_t, index_t>{200, 300}, {4, 300}, {1, 5000}}) {
    scene at(rows, keys);
    tensor<float, 4> weights({1, 4, rows, keys}), raw({1, 4, rows, keys});
    tensor<half, 4> narrow({1, 4, rows, keys});
    const auto expect = [&](outputs const& out, auto const& rule) {
      const std::string text = explain(at.query, at.key, at.value, out, rule, at.options);
      EXPECT_EQ(rest_of_line(text, "verbs: "), verbs_seen(at, out, rule)) << text;
    };
    for (int options = 0; options < 3; ++options) {
      at.options.softcap = options == 1 ? std::optional<double>(3.0) : std::nullopt;
      at.options.drop.p = options == 2 ? 0.5 : 0;
      expect(into(at.out), no_mask{});
      expect(into(at.out), causal{});
      expect(into(at.out), causal{} & window{.left = 40} & keep_mask(at.keep));
      expect(into(at.out), lengths{.key = at.key_length});
      expect(into(at.out), alibi{.slopes = at.per_head});
      expect(into(at.out), sink{.logits = at.per_head});
      expect(into(at.out).weights(weights), causal{});
      expect(into(at.out).weights(narrow), no_mask{});
      expect(into(at.out).scores(raw, score_stage::raw), causal{});
      const std::vector<index_t> no_keys = {0};
      expect(into(at.out), lengths{.key = no_keys});
    }
  }
}

TEST(ExplainRules, SaysWhereTermsArePacked) {
  using namespace heed;
  const scene at(200, 300);
  const tensor<float, 2> terms({200, 300});
  EXPECT_EQ(rest_of_line(at.explained(bias(terms)), "verbs: "), "scores, rule, softmax, accumulate");
  EXPECT_EQ(rest_of_line(at.explained(bias(at.terms)), "verbs: "), "scores, pack_terms, rule, softmax, accumulate");
}

}  // namespace
