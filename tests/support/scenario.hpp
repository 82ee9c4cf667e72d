// One line of the oracle's table: sizes, layouts, mask, anchor, data; drawn at random, or written down.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "support/judge.hpp"
#include "support/random.hpp"
#include "support/stages.hpp"
#include "support/stored.hpp"

namespace heed::test {

enum class rule_kind {
  none,
  causal,
  keep,
  drop,
  lengths,
  causal_keep,
  lengths_causal,
  drop_lengths_causal,
  lengths_lengths,
  keep_drop,
  window,
  prefix,
  documents,
  block_sparse,
  custom,
  new_masks,
  everything,
  count
};
inline char const* name_of(rule_kind kind) {
  constexpr char const* names[] = {"none",
                                   "causal",
                                   "keep",
                                   "drop",
                                   "lengths",
                                   "causal & keep",
                                   "lengths & causal",
                                   "drop & lengths & causal",
                                   "lengths & lengths",
                                   "keep & drop",
                                   "causal & window",
                                   "prefix & lengths",
                                   "documents",
                                   "block_sparse",
                                   "mask_fn",
                                   "mask_fn & documents & block_sparse & window & prefix & lengths",
                                   "(causal & keep) & (lengths & drop)"};
  return names[static_cast<int>(kind)];
}

enum class data_kind { normal, large_logits, far_logits, outliers, rising, constant, zero_query, even };
inline char const* name_of(data_kind kind) {
  constexpr char const* names[] = {"normal", "large_logits", "far_logits", "outliers",
                                   "rising", "constant",     "zero_query", "even"};
  return names[static_cast<int>(kind)];
}

struct scenario {
  std::uint64_t seed = 1;
  index_t batch = 1, heads = 1, kv_heads = 1, rows = 1, keys = 1, dim = 1, value_dim = 1;
  rule_kind rule = rule_kind::none;
  stage_kind stage = stage_kind::none;  // its rule takes the place of `rule`
  data_kind data = data_kind::normal;
  layout query_layout = layout::contiguous, key_layout = layout::contiguous, value_layout = layout::contiguous,
         out_layout = layout::contiguous, lse_layout = layout::contiguous, weights_layout = layout::contiguous;
  bool with_lse = true, with_weights = false, garbage = true;
  std::optional<double> scale, softcap;
  dropout drop{};
  anchor::rule anchor_kind = anchor::rule::bottom_right;
  index_t offset = 0;
  int threads = 1;
  int rank = 4;
  strictness how = strictness::any_size;
};

inline std::ostream& operator<<(std::ostream& text, scenario const& s) {
  text << "seed " << s.seed << ": B " << s.batch << " H " << s.heads << "/" << s.kv_heads << " S " << s.rows << "x"
       << s.keys << " D " << s.dim << "/" << s.value_dim << " rule " << name_of(s.rule) << " stage " << name_of(s.stage)
       << " data " << name_of(s.data) << " layouts " << name_of(s.query_layout) << " " << name_of(s.key_layout) << " "
       << name_of(s.value_layout) << " -> " << name_of(s.out_layout) << " " << name_of(s.lse_layout) << " "
       << name_of(s.weights_layout) << (s.with_lse ? " lse" : "") << (s.with_weights ? " weights" : "")
       << (s.garbage ? " garbage" : "") << " anchor " << static_cast<int>(s.anchor_kind) << " offset " << s.offset
       << " threads " << s.threads << " rank " << s.rank;
  if (s.scale) text << " scale " << *s.scale;
  if (s.softcap) text << " softcap " << *s.softcap;
  if (s.drop.p > 0) text << " dropout " << s.drop.p;
  return text;
}

/// Sizes where a tile, a block or a vector ends, one before and one behind.
inline index_t odd_size(random_source& random) {
  if (random.chance(0.5)) return random.between(1, 20);
  return random.pick({index_t{1},  index_t{3},  index_t{7},   index_t{8},   index_t{9},   index_t{15}, index_t{16},
                      index_t{17}, index_t{31}, index_t{33},  index_t{47},  index_t{48},  index_t{49}, index_t{59},
                      index_t{65}, index_t{97}, index_t{127}, index_t{128}, index_t{129}, index_t{150}});
}
inline index_t odd_dim(random_source& random) {
  return random.pick({index_t{1},  index_t{2},  index_t{3},  index_t{4},   index_t{5},  index_t{6},
                      index_t{7},  index_t{8},  index_t{9},  index_t{15},  index_t{16}, index_t{17},
                      index_t{20}, index_t{31}, index_t{32}, index_t{33},  index_t{63}, index_t{64},
                      index_t{65}, index_t{80}, index_t{96}, index_t{128}, index_t{129}});
}

inline scenario random_scenario(std::uint64_t seed) {
  random_source random(seed);
  scenario s;
  s.seed = seed;
  s.batch = random.chance(0.6) ? 1 : random.between(2, 3);
  s.kv_heads = random.between(1, 3);
  s.heads = s.kv_heads * random.pick({index_t{1}, index_t{1}, index_t{2}, index_t{3}, index_t{5}});
  s.rows = odd_size(random);
  s.keys = random.chance(0.04) ? 0 : (random.chance(0.1) ? random.between(200, 600) : odd_size(random));
  s.dim = odd_dim(random);
  s.value_dim = random.chance(0.5) ? s.dim : odd_dim(random);
  s.rule = static_cast<rule_kind>(random.between(0, static_cast<index_t>(rule_kind::count) - 1));
  s.data = random.pick({data_kind::normal, data_kind::normal, data_kind::large_logits, data_kind::outliers,
                        data_kind::rising, data_kind::constant, data_kind::zero_query});
  const auto input = [&] { return random.chance(0.4) ? layout::contiguous : input_layouts[random.bits() % 12]; };
  const auto output = [&] { return random.chance(0.4) ? layout::contiguous : output_layouts[random.bits() % 10]; };
  s.query_layout = input(), s.key_layout = input(), s.value_layout = input();
  s.out_layout = output(), s.lse_layout = output(), s.weights_layout = output();
  s.with_lse = random.chance(0.7);
  s.with_weights = random.chance(0.3);
  s.garbage = random.chance(0.7);
  if (random.chance(0.3)) s.scale = random.pick({0.0, 1.0, -0.7, 0.01, 2.5});
  s.anchor_kind = random.pick({anchor::rule::bottom_right, anchor::rule::bottom_right, anchor::rule::top_left,
                               anchor::rule::one_offset, anchor::rule::offsets});
  s.offset = random.chance(0.05) ? random.pick({INT64_MAX, INT64_MIN}) : random.between(-s.rows - 1, s.keys + 1);
  s.threads = static_cast<int>(random.between(0, 4));
  if (s.batch == 1 && random.chance(0.2)) s.rank = 2;
  if (random.chance(0.15)) s.rank = 3;
  if (s.rank < 4) s.heads = s.kv_heads = 1;
  random_source stages(seed + 991);
  if (stages.chance(0.45)) s.stage = static_cast<stage_kind>(stages.between(1, index_t(stage_kind::count) - 1));
  if (stages.chance(0.2)) s.softcap = stages.pick({0.5, 3.0, 30.0, 1e30, 1e300, 1e-40});
  if (stages.chance(0.15)) s.drop = {stages.pick({0.1, 0.5, 0.9, 1e-12, 1.0}), stages.bits(), stages.bits()};
  return s;
}

/// Hides every fifth score. Not trivially copyable.
struct hides_some {
  std::vector<index_t> steps;
  bool operator()(position const& at) const {
    return (at.batch + at.head * 2 + at.query * steps[0] + at.key * steps[1]) % 5 != 0;
  }
};

/// The lists and masks of a scenario; they must outlive the call.
struct rule_data {
  std::vector<index_t> query_len, key_len, key_start, key_len2, offsets, prefix_len, ids, query_ids;
  window around;
  stored<bool> mask, blocks;
  index_t block_rows = 1, block_keys = 1;
  bool with_query_ids = false;
  int mask_rank = 4;
  stage_data stages;
  hides_some functor{{7, 3}};

  explicit rule_data(scenario const& s) {
    random_source random(s.seed + 77);
    for (index_t b = 0; b < s.batch; ++b) {
      query_len.push_back(random.chance(0.3) ? s.rows : random.between(0, s.rows));
      key_len.push_back(random.chance(0.3) ? s.keys : random.between(0, s.keys));
      key_start.push_back(random.chance(0.5) ? 0 : random.between(0, key_len.back()));
      key_len2.push_back(random.between(0, s.keys));
      offsets.push_back(random.between(-s.rows, s.keys));
    }
    const auto extent = [&](index_t whole) { return random.chance(0.4) ? 1 : whole; };
    axes<4> extents(extent(s.batch), extent(s.heads), extent(s.rows), extent(s.keys));
    mask_rank = static_cast<int>(random.between(1, 4));
    for (int axis = 0; axis < 4 - mask_rank; ++axis) extents[static_cast<std::size_t>(axis)] = 1;
    mask = stored<bool>(extents, input_layouts[random.bits() % 10]);
    // Runs of one kind leave whole blocks hidden or visible; single bits leave them mixed.
    bool now = random.chance(0.5);
    const double change = random.pick({0.5, 0.1, 0.02, 0.0});
    mask.fill([&](index_t, index_t, index_t, index_t) {
      if (random.chance(change)) now = !now;
      return now;
    });
    if (s.stage != stage_kind::none) stages = stage_data(s.seed, s.batch, s.heads, s.rows, s.keys);
    draw_bounds(s, random);
    draw_documents(s, random);
    draw_blocks(s, random);
  }

  void draw_bounds(scenario const& s, random_source& random) {
    for (index_t b = 0; b < s.batch; ++b) {
      prefix_len.push_back(random.chance(0.1) ? INT64_MAX : random.between(0, s.keys + 1));
    }
    const auto bound = [&] {
      return random.chance(0.1) ? random.pick({INT64_MAX, INT64_MAX - 1}) : random.between(0, s.keys / 2 + 1);
    };
    if (random.chance(0.8)) around.left = bound();
    if (random.chance(0.7)) around.right = bound();
  }

  /// Runs of one document, in rising order or not; ids that differ in their high or in their low half.
  void draw_documents(scenario const& s, random_source& random) {
    const index_t step = random.pick({index_t{1}, index_t{1} << 32, -(index_t{1} << 32) - 1});
    const double change = random.pick({0.5, 0.1, 0.02});
    const bool rises = random.chance(0.6);
    const auto fill = [&](std::vector<index_t>& list, index_t each) {
      const index_t count = each * (random.chance(0.5) ? 1 : s.batch);
      index_t id = 0;
      for (index_t place = 0; place < count; ++place) {
        if (random.chance(change)) id = rises ? id + 1 : random.between(-2, 2);
        list.push_back(id * step);
      }
    };
    fill(ids, s.keys);
    fill(query_ids, s.rows);
    with_query_ids = random.chance(0.3);
  }

  void draw_blocks(scenario const& s, random_source& random) {
    const auto size = [&] {
      return random.pick({random.between(1, 5), random.between(1, 40), index_t{16}, index_t{32}, index_t{64},
                          random.chance(0.1) ? INT64_MAX : index_t{48}});
    };
    block_rows = size(), block_keys = size();
    const auto extent = [&](index_t whole) { return random.chance(0.4) ? 1 : whole; };
    blocks =
        stored<bool>({extent(s.batch), extent(s.heads), random.chance(0.1) ? 1 : detail::ceil_div(s.rows, block_rows),
                      random.chance(0.1) ? 1 : detail::ceil_div(s.keys, block_keys)},
                     input_layouts[random.bits() % 10]);
    blocks.fill([&](index_t, index_t, index_t, index_t) { return random.chance(0.6); });
  }

  [[nodiscard]] documents packed() const {
    return with_query_ids ? documents{.ids = ids, .query_ids = query_ids} : documents{.ids = ids};
  }
  [[nodiscard]] block_sparse sparse() const {
    return {.blocks = blocks.read_only(), .block_rows = block_rows, .block_keys = block_keys};
  }

  template <bool Keep>
  [[nodiscard]] dense_mask<Keep> dense() const {
    const auto view = mask.read_only();
    const auto e = [&](std::size_t axis) { return view.extent(axis); };
    const auto t = [&](std::size_t axis) { return view.extent(axis) == 1 ? 999 : view.stride(axis); };  // 999: unused
    switch (mask_rank) {
      case 1: return dense_mask<Keep>(tensor_view<bool const, 1>(view.data(), {e(3)}, {t(3)}));
      case 2: return dense_mask<Keep>(tensor_view<bool const, 2>(view.data(), {e(2), e(3)}, {t(2), t(3)}));
      case 3: return dense_mask<Keep>(tensor_view<bool const, 3>(view.data(), {e(1), e(2), e(3)}, {t(1), t(2), t(3)}));
      default:
        return dense_mask<Keep>(
            tensor_view<bool const, 4>(view.data(), {e(0), e(1), e(2), e(3)}, {t(0), t(1), t(2), t(3)}));
    }
  }
};

/// Unoptimised code, and configurations that ask for it, run every tenth line of the table.
#if defined(__OPTIMIZE__) && !defined(HEED_TEST_THINNED)
inline constexpr std::uint64_t thinned = 1;
#else
inline constexpr std::uint64_t thinned = 10;
#endif

/// Every kind of rule costs the compiler a kernel for each type: half and bfloat16, which meet every rule in the
/// combinations, and thinned tests take some of them here, the tests of many types a few.
enum class rules { all, some, few };
template <class Element>
inline constexpr rules rules_for = sizeof(Element) == 2 || thinned > 1 ? rules::some : rules::all;

/// Calls visit(rule) with the rule of the scenario.
template <rules Choice = rules::all, class Visitor>
void with_rule(scenario const& s, rule_data const& data, Visitor const& visit) {
  const lengths all{.query = data.query_len, .key = data.key_len, .key_start = data.key_start};
  if (s.stage != stage_kind::none) {
    return with_stage<Choice == rules::all>(s.stage, data.stages, data.dense<true>(), all, visit);
  }
  const auto everything = [&] {
    visit((causal{} & data.dense<true>()) & (lengths{.key = data.key_len} & data.dense<false>()));
  };
  if constexpr (Choice == rules::few) return s.rule == rule_kind::none ? visit(no_mask{}) : everything();
  if constexpr (Choice == rules::some) {
    switch (s.rule) {
      case rule_kind::none: return visit(no_mask{});
      case rule_kind::causal: return visit(causal{});
      case rule_kind::lengths_causal: return visit(all & causal{});
      case rule_kind::causal_keep: return visit(causal{} & data.dense<true>());
      default: return everything();
    }
  }
  switch (s.rule) {
    case rule_kind::none: return visit(no_mask{});
    case rule_kind::causal: return visit(causal{});
    case rule_kind::keep: return visit(data.dense<true>());
    case rule_kind::drop: return visit(data.dense<false>());
    case rule_kind::lengths: return visit(s.seed % 3 == 0 ? lengths{.key = data.key_len} : all);
    case rule_kind::causal_keep: return visit(causal{} & data.dense<true>());
    case rule_kind::lengths_causal: return visit(all & causal{});
    case rule_kind::drop_lengths_causal: return visit(data.dense<false>() & all & causal{});
    case rule_kind::lengths_lengths: return visit(all & lengths{.key = data.key_len2});
    case rule_kind::keep_drop: return visit(data.dense<true>() & data.dense<false>());
    case rule_kind::window: return visit(causal{} & data.around);
    case rule_kind::prefix: return visit(prefix{.lengths = data.prefix_len} & all);
    case rule_kind::documents: return visit(data.packed());
    case rule_kind::block_sparse: return visit(data.sparse());
    case rule_kind::custom:
      return visit(mask_fn([](position at) { return at.key <= 2 * at.query + 3; },
                           [](block area) {
                             if (area.key_begin > 2 * area.query_end + 1) return cover::none;
                             return area.key_end - 1 <= 2 * area.query_begin + 3 ? cover::full : cover::partial;
                           }));
    case rule_kind::new_masks:
      return visit(mask_fn(data.functor) & data.packed() & (data.sparse() & data.around) &
                   (prefix{.lengths = data.prefix_len} & all));
    default: return everything();
  }
}

[[nodiscard]] inline anchor anchor_of(scenario const& s, rule_data const& data) {
  switch (s.anchor_kind) {
    case anchor::rule::top_left: return top_left;
    case anchor::rule::one_offset: return at_offset(s.offset);
    case anchor::rule::offsets: return at_offset(data.offsets);
    default: return bottom_right;
  }
}

}  // namespace heed::test
