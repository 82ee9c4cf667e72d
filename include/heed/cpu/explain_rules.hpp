// What explain says of each rule: its name with its numbers, and what it is asked, alone, about the blocks of a call.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "heed/cpu/prepare.hpp"
#include "heed/cpu/table.hpp"
#include "heed/mask/causal.hpp"
#include "heed/mask/custom.hpp"
#include "heed/mask/lengths.hpp"
#include "heed/mask/prefix.hpp"
#include "heed/mask/window.hpp"
#include "heed/score/alibi.hpp"
#include "heed/score/bias.hpp"
#include "heed/score/custom.hpp"
#include "heed/score/sink.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

template <class Functor>
inline constexpr bool is_functor_reference = false;
template <class Functor>
inline constexpr bool is_functor_reference<functor_reference<Functor>> = true;

/// Of a rule with code of the caller's in it.
[[nodiscard]] inline std::string functor_name(char const* name, bool is_reference, bool has_covers = false) {
  std::string text(name);
  text.append(is_reference ? " (by reference" : " (copied into the kernel");
  return text.append(has_covers ? ", with covers)" : ")");
}

template <class Rule>
[[nodiscard]] std::string rule_name(Rule const&) {
  return functor_name(stage_type<Rule> ? "custom stage" : "custom mask", !std::is_trivially_copyable_v<Rule>);
}
template <class Functor, class Covers>
[[nodiscard]] std::string rule_name(custom_mask<Functor, Covers> const&) {
  constexpr bool is_copied = std::is_trivially_copyable_v<custom_mask<Functor, Covers>>;
  return functor_name("mask_fn", !is_copied || is_functor_reference<Functor>, !std::is_same_v<Covers, always_partial>);
}
template <class Function, class Derivative>
[[nodiscard]] std::string rule_name(score_fn<Function, Derivative> const&) {
  return functor_name("score_fn", !std::is_trivially_copyable_v<score_fn<Function, Derivative>>);
}
template <bool Keep>
[[nodiscard]] std::string rule_name(dense_mask<Keep> const&) {
  return Keep ? "keep_mask" : "drop_mask";
}
[[nodiscard]] inline std::string rule_name(no_mask const&) { return "no_mask"; }
[[nodiscard]] inline std::string rule_name(causal const&) { return "causal"; }
[[nodiscard]] inline std::string rule_name(prefix const&) { return "prefix"; }
[[nodiscard]] inline std::string rule_name(lengths const&) { return "lengths"; }
[[nodiscard]] inline std::string rule_name(alibi const&) { return "alibi"; }
[[nodiscard]] inline std::string rule_name(sink const&) { return "sink"; }
[[nodiscard]] inline std::string rule_name(documents const& rule) {
  return rule.query_ids.given() ? "documents (with query_ids)" : "documents";
}
[[nodiscard]] inline std::string rule_name(bias const& rule) {
  return std::string("bias (").append(element_name(rule.terms().kind)).append(")");
}
[[nodiscard]] inline std::string rule_name(window const& rule) {
  char left[24] = "unbounded", right[24] = "unbounded", text[80];
  if (rule.left.has_value()) std::snprintf(left, sizeof left, "%lld", static_cast<long long>(*rule.left));
  if (rule.right.has_value()) std::snprintf(right, sizeof right, "%lld", static_cast<long long>(*rule.right));
  std::snprintf(text, sizeof text, "window (left %s, right %s)", left, right);
  return text;
}
[[nodiscard]] inline std::string rule_name(block_sparse const& rule) {
  char text[80];
  std::snprintf(text, sizeof text, "block_sparse (%lld x %lld)", static_cast<long long>(rule.block_rows),
                static_cast<long long>(rule.block_keys));
  return text;
}
[[nodiscard]] inline std::string rule_name(relative_bias const& rule) {
  char text[120];
  std::snprintf(text, sizeof text, "relative_bias (%lld buckets, %s, max_distance %lld)",
                static_cast<long long>(rule.table.extent(0)), rule.bidirectional ? "both directions" : "one direction",
                static_cast<long long>(rule.max_distance));
  return text;
}

/// Masks that say all by shorter sequences: no score is looked at.
template <class Rule>
inline constexpr bool allows_all = std::is_same_v<Rule, no_mask> || std::is_same_v<Rule, lengths>;

/// One of the rules that `&` has joined.
struct rule_note {
  std::string name;
  rule_view alone;
  bool is_mask;
  bool looks_at_scores;
  index_t skipped = 0, full = 0, partial = 0;  // blocks of one that is a mask

  /// Asks a mask what it makes of the blocks of a tile whose rows `area` has, whatever other rules make of them.
  void ask(block area, index_t block_keys, index_t seq_len_q, index_t seq_len_kv, bool shows_hidden) {
    if (!is_mask) return;
    sequence seq{seq_len_q, 0, seq_len_kv, area.offset};
    alone.narrow(area.batch, seq);
    area.key_begin = seq.key_begin;
    area.key_end = greater(seq.key_begin, seq.key_end);
    key_range keys{area.key_begin, area.key_end};
    if (keys.begin < keys.end && !shows_hidden) keys = alone.visible_keys(area);
    for (index_t begin = 0; begin < seq_len_kv; begin += block_keys) {
      area.key_begin = greater(begin, keys.begin);
      area.key_end = lesser(begin + block_keys, keys.end);
      const cover seen = area.key_begin < area.key_end ? alone.covers(area) : cover::none;
      skipped += seen == cover::none;
      full += seen == cover::full;
      partial += seen == cover::partial;
    }
  }

  /// Its line. Masks look at scores in blocks that are partly visible, stages at all that are computed.
  void append_to(std::string& text, double masked, double staged) const {
    char numbers[160];
    int used = 0;
    if (is_mask) {
      used =
          std::snprintf(numbers, sizeof numbers, "blocks skipped %lld, full %lld, partial %lld",
                        static_cast<long long>(skipped), static_cast<long long>(full), static_cast<long long>(partial));
    } else {
      used = std::snprintf(numbers, sizeof numbers, "%s", looks_at_scores ? "every visible score" : "every row");
    }
    std::snprintf(numbers + used, sizeof numbers - static_cast<std::size_t>(used), ", elements evaluated %.0f\n",
                  !looks_at_scores  ? 0.0
                  : alone.adjusts() ? staged
                                    : masked);
    text.append("rule: ").append(name).append(": ").append(numbers);
  }
};

/// A note of every rule that `&` has joined, in the order written; `ready` is what the kernels take for them.
template <class Rule, class Ready>
void note_rules(Rule const& rule, Ready const& ready, std::vector<rule_note>& notes) {
  constexpr bool is_mask = !stage_type<Rule> || mask_type<Rule>;
  notes.push_back({rule_name(rule), view_of(ready), is_mask, adjusts<Ready> || (is_mask && !allows_all<Rule>)});
}
template <class First, class Second, class ReadyFirst, class ReadySecond>
void note_rules(both<First, Second> const& rule, both<ReadyFirst, ReadySecond> const& ready,
                std::vector<rule_note>& notes) {
  note_rules(rule.first, ready.first, notes);
  note_rules(rule.second, ready.second, notes);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
