// Which way a call of a combination should take, worked out from the combination alone, and whether explain tells of
// that way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/expected_blocks.hpp"
#include "support/paths.hpp"

namespace heed::test {

/// What its path depends on beside the combination.
struct call_facts {
  element_kind kind;                   // of all operands but lse and scores
  detail::operand key, value;          // where they lie
  bool changes_scores;                 // by the type of its rule, whatever of it is on
  std::vector<detail::operand> terms;  // of dense stages, on or off
};

__attribute__((format(printf, 1, 2))) inline std::string text_of(char const* format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

/// Names joined as explain joins them.
struct name_list {
  std::string text;
  void add(bool is_in, std::string const& name) {
    if (is_in) text.append(text.empty() ? "" : ", ").append(name);
  }
};

class expectation {
 public:
  expectation(combination const& given, call_facts const& call, bool is_backward)
      : given_(given),
        these_(given.these),
        s_(given.sizes),
        call_(call),
        is_backward_(is_backward),
        level_(active_isa()),
        real_kind_(call.kind == element_kind::float64 ? element_kind::float64 : element_kind::float32),
        real_bytes_(real_kind_ == element_kind::float64 ? 8 : 4),
        lanes_(vector_bytes() / real_bytes_),
        hidden_(given, is_backward || given.these.has(part::functor_elsewhere)) {
    const attention_options options = given.options();
    const bool may_round = call.kind == element_kind::bfloat16 && !options.precise && !drops() && s_.scale != 0.0;
    const std::string fastest = may_round ? line_of_fast_bf16() : "bf16_dot: off";
    // Half a vector of rows of float leaves the other half to the columns, where they come in pairs.
    const bool in_pairs = s_.dim % 2 == 0 && s_.value_dim % 2 == 0 && lanes_ == 16 && fastest == "bf16_dot: off";
    // Few rows: at most four, or half a vector. The baseline of x86-64 has no kernels for them, and those that there
    // are know no dropout.
    is_few_ = !is_backward && level_ != "v1" && !drops() && s_.rows <= std::max<index_t>(4, lanes_ / 2) &&
              !(in_pairs && s_.rows == 8);
    bf16_dot_ = is_few_ ? "bf16_dot: off" : fastest;
    is_paired_ = bf16_dot_ != "bf16_dot: off";
    is_tiled_ = bf16_dot_ == "bf16_dot: on (amx)";
    has_pairs_of_columns_ = !is_backward && !is_few_ && in_pairs && s_.rows <= 8;
    if (has_pairs_of_columns_) lanes_ = 8;
  }

  [[nodiscard]] testing::AssertionResult forward(std::string const& told, detail::operand const& weights) {
    const bool with_weights = weights.given(), in_one_pass = with_weights && is_real(weights) && lies_in_rows(weights);
    expect_machine();
    const expected_cut cut(facts_of_cut(told, with_weights));
    expect_tally(told, is_few_ ? whole_heads(s_.batch, s_.heads, s_.rows) : cut.pieces());
    char const* const packed = !is_few_ && cut.packs_once() ? "packed once" : "packed by each piece of work";
    expect(where("key", call_.key, packed));
    expect(where("value", call_.value, packed));
    expect("splits: 1");  // the first is longer than all keys
    expect(text_of("weights: %s", !with_weights ? "none" : in_one_pass ? "in one pass" : "in a second pass"));
    expect(text_of("scores:%s%s%s%s", these_.has(part::raw) ? " raw" : "", these_.has(part::capped) ? " capped" : "",
                   these_.has(part::biased) ? " biased" : "", score_outputs() == 0 ? " none" : ""));
    double products = static_cast<double>(tally_.scores) * static_cast<double>(s_.dim + s_.value_dim);
    const index_t twice = is_few_ || !shows_hidden() ? 0 : tally_.scores;  // tiles are shown what they attend
    index_t again = shows_hidden() ? tally_.shown - twice : 0;
    if (with_weights && !in_one_pass) again += tally_.scores;
    products += static_cast<double>(again) * static_cast<double>(s_.dim);
    if (hidden_.is_exact()) expect(text_of("flops: %.0f", 2 * products));
    expect(text_of("bytes: %lld", static_cast<long long>(bytes(with_weights))));
    if (is_clear(told)) expect("verbs: " + verbs(told, with_weights, in_one_pass));
    return verdict(told);
  }

  [[nodiscard]] testing::AssertionResult backward(std::string const& told, bool bends) {
    expect_machine();
    expect_tally(told, whole_heads(s_.batch, s_.heads, s_.rows));
    expect(where("key", call_.key, "packed by each chunk"));
    expect(where("value", call_.value, "packed by each chunk"));
    if (hidden_.is_exact()) {
      const index_t products = 3 * s_.dim + 2 * s_.value_dim;  // scores, dq, dk; d_out times value, dv
      expect(text_of("flops: %.0f", 2 * static_cast<double>(tally_.scores) * static_cast<double>(products)));
    }
    if (is_clear(told)) expect("verbs: " + verbs_back(bends));
    return verdict(told);
  }

 private:
  [[nodiscard]] index_t vector_bytes() const {
    if (level_ == "v4") return 64;
    return level_ == "v3" ? 32 : 16;
  }
  [[nodiscard]] bool drops() const { return these_.has(part::dropout); }
  [[nodiscard]] bool shows_hidden() const {
    return !is_backward_ && (these_.has(part::raw) || these_.has(part::capped));
  }
  [[nodiscard]] int score_outputs() const {
    return int{these_.has(part::raw)} + int{these_.has(part::capped)} + int{these_.has(part::biased)};
  }
  [[nodiscard]] bool is_real(detail::operand const& box) const { return box.kind == real_kind_; }
  [[nodiscard]] static bool lies_in_rows(detail::operand const& box) {
    return box.extents[3] <= 1 || box.strides[3] == 1;
  }

  void expect(std::string const& line) { lines_.push_back(line); }

  void expect_machine() {
    expect("isa: " + std::string(level_));
    if (char const* const lowered = std::getenv("HEED_ISA")) expect(text_of("isa: %s", lowered));
    const index_t queries = is_few_ ? s_.heads / s_.kv_heads * s_.rows : has_pairs_of_columns_ ? 8 : 3 * lanes_;
    expect(text_of("tile: %s%lld queries x 128 keys", is_few_ ? "decode, " : "", static_cast<long long>(queries)));
    expect(real_bytes_ == 8 ? "accumulate: float64" : "accumulate: float32");
    expect(bf16_dot_);
    expect(!drops() ? std::string("dropout: off")
                    : text_of("dropout: p %g, seed %llu, offset %llu", s_.drop.p,
                              static_cast<unsigned long long>(s_.drop.seed),
                              static_cast<unsigned long long>(s_.drop.offset)));
  }

  /// So little work that it repays no second thread.
  [[nodiscard]] bool is_alone() const {
    const double sums = static_cast<double>(s_.dim + s_.value_dim);
    const double rows = 2 * static_cast<double>(s_.heads * s_.rows) + (is_few_ ? 24.0 * double(s_.kv_heads) : 0);
    return s_.threads == 1 || static_cast<double>(s_.batch * s_.keys) * sums * rows < 8e6;
  }
  /// The number of threads is explain's word: what a mask hides of the work decides it, too.
  [[nodiscard]] cut_facts facts_of_cut(std::string const& told, bool with_weights) const {
    // Words of a row of K, and rows of V that are packed together.
    const index_t elements = is_tiled_ ? 32 : is_paired_ ? 2 : 1, words = is_tiled_ ? 16 : 1;
    const index_t key_words = s_.keys * ((s_.dim + elements - 1) / elements * words);
    const index_t value_words = (s_.keys + elements - 1) / elements * words * s_.value_dim;
    return {s_.batch,
            s_.kv_heads,
            s_.heads / s_.kv_heads,
            s_.rows,
            s_.keys,
            s_.dim + s_.value_dim,
            lanes_,
            real_bytes_,
            std::max<index_t>(1, static_cast<index_t>(number_of(told, "threads"))),
            with_weights,
            key_words * real_bytes_,
            value_words * real_bytes_,
            !is_in_place(call_.key),
            !is_in_place(call_.value)};
  }
  void expect_tally(std::string const& told, std::vector<head_rows> const& pieces) {
    tally_ = hidden_.count({lanes_, is_tiled_ ? 32 : 16, is_few_, shows_hidden()}, pieces);
    if (!fits(told)) {
      problems_ += text_of("blocks: skipped %lld, full %lld, partial %lld, elements evaluated %lld%s; ",
                           static_cast<long long>(tally_.skipped), static_cast<long long>(tally_.full),
                           static_cast<long long>(tally_.partial), static_cast<long long>(elements()),
                           hidden_.is_exact() ? "" : " or better");
    }
    const double threads = number_of(told, "threads");
    if (threads < 1 || threads > (is_alone() ? 1 : s_.threads)) problems_ += "other threads; ";
    // A megabyte for each thread, and what is packed for all.
    if (number_of(told, "scratch") > (threads + 16) * 0x1p20) problems_ += "less scratch; ";
  }
  [[nodiscard]] index_t elements() const { return call_.changes_scores ? tally_.staged : tally_.masked; }
  [[nodiscard]] bool fits(std::string const& told) const {
    long long skipped = -1, full = -1, partial = -1;
    const auto place = told.find("\nblocks: ");
    if (place == std::string::npos) return false;
    std::sscanf(told.c_str() + place, "\nblocks: skipped %lld, full %lld, partial %lld", &skipped, &full, &partial);
    const index_t evaluated = static_cast<index_t>(number_of(told, "elements evaluated"));
    if (hidden_.is_exact()) {
      return skipped == tally_.skipped && full == tally_.full && partial == tally_.partial && evaluated == elements();
    }
    return skipped >= tally_.skipped && full >= tally_.full && evaluated <= elements() &&
           skipped + full + partial == tally_.skipped + tally_.full + tally_.partial;
  }

  /// Rows of K or V are used where they lie if the kernels can read them there, and if they are close together or few
  /// queries use them.
  [[nodiscard]] bool is_in_place(detail::operand const& box) const {
    bool in_place = lies_in_rows(box);
    if (is_few_) {
      // Only at v4 they read half and bfloat16, and nowhere rows that do not fill a vector.
      in_place = in_place && (is_real(box) || level_ == "v4") && box.extents[3] >= lanes_;
    } else {
      const bool is_close = box.extents[2] <= 1 || box.strides[2] == box.extents[3];
      in_place = in_place && (is_close || s_.heads / s_.kv_heads * s_.rows < 96);
      if (is_paired_) {  // of head dimensions in K; of keys in V, which are never side by side, but on the way back
        const bool is_even = box.strides[0] % 2 == 0 && box.strides[1] % 2 == 0 && box.strides[2] % 2 == 0;
        in_place = in_place && (is_backward_ || &box == &call_.key) && box.extents[3] % (is_tiled_ ? 32 : 2) == 0 &&
                   is_even && reinterpret_cast<std::uintptr_t>(box.data) % 4 == 0;
      } else {
        in_place = in_place && is_real(box);
      }
    }
    return in_place;
  }
  /// The line of K or V.
  [[nodiscard]] std::string where(char const* name, detail::operand const& box, char const* packed) const {
    std::string line = text_of("%s: ", name);
    if (is_in_place(box)) return line + "in place";
    line += packed;
    if (is_backward_) return line;
    if (is_paired_) return line + " in pairs";
    return is_real(box) ? line : line + text_of(" from %s", detail::element_name(box.kind));
  }

  [[nodiscard]] index_t bytes(bool with_weights) const {
    const index_t element = detail::element_size(call_.kind), rows = s_.batch * s_.heads * s_.rows;
    index_t sum = rows * (s_.dim + s_.value_dim) * element;
    sum += s_.batch * s_.kv_heads * s_.keys * (s_.dim + s_.value_dim) * element;
    if (these_.has(part::lse)) sum += rows * real_bytes_;
    if (with_weights) sum += rows * s_.keys * element;
    return sum + score_outputs() * rows * s_.keys * real_bytes_;
  }

  /// Whether the tally says which verbs run.
  [[nodiscard]] bool is_clear(std::string const& told) const {
    return hidden_.is_exact() || (hidden_.visible() > 0 && number_of(told, "elements evaluated") > 0);
  }
  [[nodiscard]] bool packs_terms() const {
    return std::any_of(call_.terms.begin(), call_.terms.end(),
                       [this](detail::operand const& terms) { return !is_real(terms) || terms.strides[3] != 1; });
  }
  [[nodiscard]] std::string words_of_products() const {
    return is_tiled_ ? " (bf16 tiles)" : is_paired_ ? " (bf16 pairs)" : "";
  }
  /// Products of bfloat16 take their scale after the sum: where a cap or a stage wants the score, that is a verb.
  [[nodiscard]] bool scales_scores() const {
    const double scale = s_.scale.value_or(1 / std::sqrt(static_cast<double>(s_.dim)));
    return is_paired_ && call_.changes_scores && std::fabs(scale) != 1;
  }
  [[nodiscard]] std::string verbs(std::string const& told, bool with_weights, bool in_one_pass) const {
    const bool attends = tally_.scores > 0;
    const std::string words = words_of_products();
    bool has_sink = false;
    for (index_t h = 0; h < s_.heads; ++h) {
      const auto weighs = [&](part one, std::vector<float> const& logits) {
        return these_.has(one) && logits[static_cast<std::size_t>(h)] > -std::numeric_limits<float>::infinity();
      };
      has_sink = has_sink || weighs(part::sink, given_.data.stages.logits) ||
                 weighs(part::second_sink, given_.more.stages.more_logits);
    }
    const bool computes = attends || (shows_hidden() && tally_.shown > 0);
    name_list names;
    names.add(computes, (is_few_ ? "dot_rows" : "scores") + words);
    names.add(computes && (these_.has(part::softcap) || scales_scores()), "cap_scores");
    names.add(attends && packs_terms(), "pack_terms");
    names.add(number_of(told, "elements evaluated") > 0, "rule");
    names.add(attends, is_few_ ? "softmax_rows" : "softmax");
    names.add(attends && drops(), "drop");
    names.add(attends, (is_few_ ? "add_rows" : "accumulate") + words);
    names.add(is_few_ && has_sink, "merge_rows");
    names.add(attends && with_weights && in_one_pass, "weigh_rows");
    names.add(attends && with_weights && !in_one_pass && !is_few_, "probabilities");
    return names.text.empty() ? "none" : names.text;
  }
  [[nodiscard]] std::string verbs_back(bool bends) const {
    if (tally_.scores == 0) return "none";
    const std::string words = words_of_products();
    name_list names;
    names.add(true, "scores" + words);
    names.add(these_.has(part::softcap) || scales_scores(), "cap_scores");
    names.add(packs_terms(), "pack_terms");
    names.add(true, "rule");
    names.add(drops(), "drop");
    names.add(true, "differentiate");
    names.add(bends, "rule_gradient");
    names.add(these_.has(part::softcap), "cap_gradient");
    names.add(true, "key_gradients" + words);
    names.add(true, "accumulate" + words);
    return names.text;
  }

  [[nodiscard]] testing::AssertionResult verdict(std::string const& told) const {
    std::string wrong = problems_;
    for (std::string const& line : lines_) {
      if (!has_line(told, line)) wrong += line + "; ";
    }
    if (wrong.empty()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "explain should say: " << wrong << "and says:\n" << told;
  }

  combination const& given_;
  parts const& these_;
  scenario const& s_;
  call_facts const& call_;
  bool is_backward_;
  std::string_view level_;
  element_kind real_kind_;  // of sums
  index_t real_bytes_;
  index_t lanes_;
  bool has_pairs_of_columns_;
  hidden_scores hidden_;
  bool is_few_ = false, is_paired_ = false, is_tiled_ = false;
  std::string bf16_dot_, problems_;
  block_tally tally_;
  std::vector<std::string> lines_;
};

/// `told` is what explain says of attention; `weights` may not be given.
[[nodiscard]] inline testing::AssertionResult takes_its_way(std::string const& told, combination const& given,
                                                            call_facts const& call, detail::operand const& weights) {
  return expectation(given, call, false).forward(told, weights);
}
/// Of attention_backward, with dq, dk and dv asked for; `bends`: the type of the rule has functors of scores.
[[nodiscard]] inline testing::AssertionResult takes_its_way_back(std::string const& told, combination const& given,
                                                                 call_facts const& call, bool bends) {
  return expectation(given, call, true).backward(told, bends);
}

}  // namespace heed::test
