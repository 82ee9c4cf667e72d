// Subsets of everything that a call may be given: masks, stages, options and outputs, each on or off.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/optional_rule.hpp"
#include "support/run_scenario.hpp"

namespace heed::test {

enum class part : int {
  causal,
  window,
  prefix,
  documents,
  block_sparse,
  lengths,
  keep,
  drop,
  functor,
  functor_elsewhere,
  alibi,
  bias,
  score_fn,
  relative,
  second_bias,
  sink,
  second_score_fn,
  second_sink,
  softcap,
  scale,
  top_left,
  one_offset,
  offsets,
  lse,
  weights,
  raw,
  capped,
  biased,
  dropout,
  count
};
inline constexpr char const* part_names[] = {"causal",   "window",   "prefix",   "documents", "block_sparse", "lengths",
                                             "keep",     "drop",     "mask_fn",  "mask_fn&",  "alibi",        "bias",
                                             "score_fn", "relative", "bias2",    "sink",      "score_fn2",    "sink2",
                                             "softcap",  "scale",    "top_left", "at_offset", "offsets",      "lse",
                                             "weights",  "raw",      "capped",   "biased",    "dropout"};
inline constexpr int part_count = static_cast<int>(part::count);
inline constexpr int first_stage = static_cast<int>(part::alibi), first_option = static_cast<int>(part::softcap);

/// A subset of the parts.
struct parts {
  std::uint32_t bits = 0;
  [[nodiscard]] bool has(part one) const { return (bits >> static_cast<int>(one) & 1u) != 0; }
  void add(int one) { bits |= 1u << one; }
  [[nodiscard]] bool changes_scores() const {
    for (part one :
         {part::alibi, part::bias, part::score_fn, part::relative, part::second_bias, part::second_score_fn}) {
      if (has(one)) return true;
    }
    return false;
  }
  /// There is one anchor at most.
  [[nodiscard]] bool is_possible() const {
    return int{has(part::top_left)} + int{has(part::one_offset)} + int{has(part::offsets)} <= 1;
  }
};
inline std::ostream& operator<<(std::ostream& text, parts const& these) {
  for (int one = 0; one < part_count; ++one) {
    if (these.has(static_cast<part>(one))) text << part_names[one] << " ";
  }
  return text;
}

/// Sees keys up to twice as far, and knows it of blocks.
struct twice_as_far {
  bool operator()(position const& at) const { return at.key <= 2 * at.query + 40; }
  cover operator()(block const& area) const {
    if (area.key_begin > 2 * (area.query_end - 1) + 40) return cover::none;
    return area.key_end - 1 <= 2 * area.query_begin + 40 ? cover::full : cover::partial;
  }
};
/// A bend of another kind.
struct halving {
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return heed::select(at.key % 3 == 0, score, Real(0.5) * score + Real(0.25));
  }
};

/// Sizes, layouts and types of the numbers, drawn from a seed; what of it a call is given says `these`.
struct combination {
  parts these;
  scenario sizes;
  rule_data data, more;
  twice_as_far far;

  combination(parts those, std::uint64_t seed) : combination(those, drawn(those, seed)) {}
  /// Of sizes that are given; all the numbers of its stages are drawn.
  combination(parts those, scenario s)
      : these(those), sizes(with_numbers(std::move(s))), data(sizes), more(other(sizes)) {
    more.functor.steps = {5, 2};
  }

  static scenario drawn(parts those, std::uint64_t seed) {
    random_source random(seed * 31 + 5);
    scenario s = random_scenario(seed);
    s.rank = 4;
    s.batch = random.between(1, 2);
    s.kv_heads = random.between(1, 2);
    s.heads = s.kv_heads * random.between(1, 3);
    s.rows = random.chance(0.35) ? random.between(1, 8) : random.between(1, 70);
    s.keys = random.chance(0.5) ? random.between(1, 70) : random.between(1, 300);
    s.dim = random.pick({index_t{1}, index_t{3}, index_t{8}, index_t{16}, index_t{17}, index_t{32}, index_t{40}});
    s.value_dim = random.chance(0.5) ? s.dim : random.pick({index_t{1}, index_t{5}, index_t{16}, index_t{33}});
    s.data = random.pick({data_kind::normal, data_kind::normal, data_kind::outliers, data_kind::constant});
    s.scale.reset();
    s.softcap.reset();
    s.drop = {};
    if (those.has(part::scale)) s.scale = random.pick({1.0, -0.7, 0.0, 0.3});
    if (those.has(part::softcap)) s.softcap = random.pick({0.5, 3.0, 30.0});
    if (those.has(part::dropout)) s.drop = {.p = seed % 2 == 0 ? 0.2 : 0.7, .seed = seed, .offset = 3};
    s.anchor_kind = those.has(part::top_left)     ? anchor::rule::top_left
                    : those.has(part::one_offset) ? anchor::rule::one_offset
                    : those.has(part::offsets)    ? anchor::rule::offsets
                                                  : anchor::rule::bottom_right;
    s.offset = random.chance(0.1) ? random.pick({INT64_MAX, INT64_MIN}) : random.between(-s.rows / 2, s.keys);
    s.threads = static_cast<int>(random.between(1, 3));
    s.garbage = random.chance(0.8);
    return s;
  }
  static scenario with_numbers(scenario s) {
    s.stage = stage_kind::all;
    return s;
  }
  static scenario other(scenario s) {
    s.seed += 1000003;
    return s;
  }

  [[nodiscard]] lengths some() const {
    return {.query = data.query_len, .key = data.key_len, .key_start = data.key_start};
  }
  [[nodiscard]] attention_options options() const {
    return {.scale = sizes.scale,
            .softcap = sizes.softcap,
            .anchor = anchor_of(sizes, data),
            .drop = sizes.drop,
            .precise = sizes.seed % 3 == 0,
            .threads = sizes.threads};
  }

  template <class Rule>
  [[nodiscard]] auto when(part one, Rule const& rule) const {
    return optional_rule<Rule>{rule, these.has(one)};
  }
  /// Everything, on or off.
  [[nodiscard]] auto joined() const {
    return when(part::alibi, alibi{data.stages.slopes}) & when(part::bias, data.stages.dense()) &
           when(part::causal, causal{}) & when(part::window, data.around) &
           (when(part::score_fn, score_fn(bending{})) & when(part::prefix, prefix{data.prefix_len}) &
            when(part::documents, data.packed())) &
           when(part::relative, data.stages.relative()) & when(part::block_sparse, data.sparse()) &
           (when(part::lengths, some()) & when(part::keep, data.dense<true>())) &
           when(part::second_bias, more.stages.dense()) & when(part::drop, more.dense<false>()) &
           when(part::functor, mask_fn(far, far)) & when(part::sink, sink{data.stages.logits}) &
           when(part::functor_elsewhere, mask_fn(data.functor)) & when(part::second_score_fn, score_fn(halving{})) &
           when(part::second_sink, sink{more.stages.more_logits});
  }

  /// Masks alone, and what is no stage of scores: a type that looks at fewer scores.
  [[nodiscard]] auto masks() const {
    return when(part::causal, causal{}) & when(part::window, data.around) &
           when(part::prefix, prefix{data.prefix_len}) & when(part::documents, data.packed()) &
           when(part::block_sparse, data.sparse()) & when(part::lengths, some()) &
           when(part::keep, data.dense<true>()) & when(part::drop, more.dense<false>()) &
           when(part::functor, mask_fn(far, far)) & when(part::functor_elsewhere, mask_fn(data.functor)) &
           when(part::sink, sink{data.stages.logits}) & when(part::second_sink, sink{more.stages.more_logits});
  }

  /// The rows and keys of a batch item that exist.
  [[nodiscard]] reference::limits limits(index_t batch) const {
    return reference::limits_of(these.has(part::lengths) ? some() : lengths{}, anchor_of(sizes, data), batch,
                                sizes.rows, sizes.keys);
  }
  /// The masks that hide one score, in the reference's own words.
  [[nodiscard]] parts hidden_by(position const& at, reference::limits const& exists) const {
    parts found;
    const auto ask = [&](part one, auto const& rule) {
      if (these.has(one) && !reference::is_visible(rule, at, exists)) found.add(static_cast<int>(one));
    };
    ask(part::causal, causal{});
    ask(part::window, data.around);
    ask(part::prefix, prefix{data.prefix_len});
    ask(part::documents, data.packed());
    ask(part::block_sparse, data.sparse());
    ask(part::keep, data.dense<true>());
    ask(part::drop, more.dense<false>());
    ask(part::functor, mask_fn(far));
    ask(part::functor_elsewhere, mask_fn(data.functor));
    return found;
  }
  [[nodiscard]] bool sees(position const& at, reference::limits const& exists) const {
    return hidden_by(at, exists).bits == 0 && !staged<double>(0.0, at).is_hidden;
  }
  /// What the stages make of one score.
  template <class Narrow, class Real>
  [[nodiscard]] reference::detail::staged<Real> staged(Real score, position const& at) const {
    reference::detail::staged<Real> now{score};
    const auto pass = [&](part one, auto const& rule) {
      if (these.has(one)) reference::adjust<Narrow>(rule, at, now);
    };
    pass(part::alibi, alibi{data.stages.slopes});
    pass(part::bias, data.stages.dense());
    pass(part::score_fn, score_fn(bending{}));
    pass(part::relative, data.stages.relative());
    pass(part::second_bias, more.stages.dense());
    pass(part::second_score_fn, score_fn(halving{}));
    return now;
  }
};

/// The whole subset in the three rules that say everything: who is visible, what becomes of a score, the sinks.
template <class Narrow>
class combination_oracle {
 public:
  explicit combination_oracle(combination const& given)
      : given_(given),
        visible_({given.sizes.batch, given.sizes.heads, given.sizes.rows, given.sizes.keys}),
        query_len_(lengths_of(given.data.query_len, given.sizes.rows)),
        key_len_(lengths_of(given.data.key_len, given.sizes.keys)),
        key_start_(lengths_of(given.data.key_start, 0)),
        logits_(logits_of(part::sink, given.data.stages.logits)),
        more_logits_(logits_of(part::second_sink, given.more.stages.more_logits)) {
    for (index_t b = 0; b < given.sizes.batch; ++b) {
      const reference::limits exists = given.limits(b);
      for (index_t h = 0; h < given.sizes.heads; ++h) {
        for (index_t i = 0; i < given.sizes.rows; ++i) {
          for (index_t j = 0; j < given.sizes.keys; ++j) {
            visible_(b, h, i, j) = given.sees({b, h, i, j, exists.offset}, exists);
            seen_ += visible_(b, h, i, j) && i < exists.query_len && j >= exists.key_begin && j < exists.key_end;
          }
        }
      }
    }
  }

  [[nodiscard]] auto rule() const {
    return all() & keep_mask(visible_) & score_fn([this](auto score, position const& at) {
             return given_.template staged<Narrow>(score, at).score;
           }) &
           sink{logits_} & sink{more_logits_};
  }
  [[nodiscard]] bool sees(index_t b, index_t h, index_t i, index_t j) const { return visible_(b, h, i, j); }
  [[nodiscard]] index_t seen() const { return seen_; }

 private:
  [[nodiscard]] lengths all() const { return {.query = query_len_, .key = key_len_, .key_start = key_start_}; }
  [[nodiscard]] std::vector<index_t> lengths_of(std::vector<index_t> const& these, index_t otherwise) const {
    return given_.these.has(part::lengths) ? these : std::vector<index_t>(these.size(), otherwise);
  }
  [[nodiscard]] std::vector<float> logits_of(part one, std::vector<float> const& these) const {
    const float none = -std::numeric_limits<float>::infinity();
    return given_.these.has(one) ? these : std::vector<float>(these.size(), none);
  }

  combination const& given_;
  tensor<bool, 4> visible_;
  std::vector<index_t> query_len_, key_len_, key_start_;
  std::vector<float> logits_, more_logits_;
  index_t seen_ = 0;
};

}  // namespace heed::test
