// A dry run of the backward pass: the same questions to the masks, but no element is read.
#pragma once

#include <string>
#include <vector>

#include "heed/cpu/backward.hpp"
#include "heed/cpu/explain.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// The products of one score with a row that a backward pass takes: scores anew and the gradients of probabilities,
/// then what is wanted of dq, dk and dv.
[[nodiscard]] inline double flops_per_score(backward_problem const& pass) noexcept {
  const double qk = static_cast<double>(pass.call.head_dim_qk), v = static_cast<double>(pass.call.head_dim_v);
  return 2.0 * (qk + v + (pass.dq.given() ? qk : 0) + (pass.dk.given() ? qk : 0) + (pass.dv.given() ? v : 0));
}

/// The verbs that look at scores, in their order.
template <class Real>
[[nodiscard]] std::string verbs_that_run(gradient_call<Real> const& all, block_counts const& counts) {
  kernel<Real> const& run = all.run;
  if (counts.scores == 0) return "none";
  bool packs_terms = false;
  for (int stage = 0; stage < run.rule.dense_stages(); ++stage) {
    packs_terms = packs_terms || !terms_in_place<Real>(run.rule.terms(stage));
  }
  char const* const words = words_text(run.verb);
  std::string text("scores");
  text.append(words);
  const auto add = [&](bool runs, char const* name, char const* what = "") {
    if (runs) text.append(", ").append(name).append(what);
  };
  add(run.caps(), "cap_scores");
  add(packs_terms, "pack_terms");
  add(counts.masked + counts.staged > 0, "rule");
  add(all.drops(), "drop");
  add(true, "differentiate");
  add(all.bends(), "rule_gradient");
  add(run.cap != Real(0), "cap_gradient");
  add(all.want.dk.given() || all.want.dv.given(), "key_gradients", words);
  add(all.want.dq.given(), "accumulate", words);
  return text;
}

/// `all` says what is wanted of which call.
template <class Real>
[[nodiscard]] std::string explain_backward(gradient_call<Real>& all, std::vector<rule_note>& notes) {
  backward_problem const& pass = all.want;
  problem const& call = pass.call;
  kernel<Real> const& run = all.run;
  const gradient_cut cut = plan(all);
  block_counts counts;
  count_heads(run, false, counts, notes);
  double bytes = 0;
  const auto count_bytes = [&](operand const& box) {
    if (!box.given()) return;
    double size = static_cast<double>(element_size(box.kind));
    for (index_t extent : box.extents) size *= static_cast<double>(extent);
    bytes += size;
  };
  for (operand const* box : {&call.query, &call.key, &call.value, &pass.out, &pass.lse, &pass.d_out, &pass.d_lse}) {
    count_bytes(*box);
  }
  std::string wanted;
  (void)call.gradients->all_of([&](named_gradient const& one) {
    count_bytes(*one.box);
    wanted.append(wanted.empty() ? "" : ", ").append(gradient_name(one).text);
    return true;
  });
  char text[900];
  std::snprintf(text, sizeof text,
                "isa: %s\n"
                "tile: %lld queries x %lld keys\n"
                "accumulate: %s\n"
                "blocks: skipped %lld, full %lld, partial %lld\n"
                "elements evaluated: %.0f\n"
                "key: %s\n"
                "value: %s\n"
                "bf16_dot: %s\n"
                "dropout: %s\n"
                "threads: %d%s\n"
                "splits: %lld\n"
                "chunks: %lld of %lld keys\n"
                "flops: %.0f\n"
                "bytes: %.0f\n"
                "scratch: %llu\n",
                isa_name(current_isa().level), static_cast<long long>(3 * run.verb.lanes),
                static_cast<long long>(run.block_keys), sizeof(Real) == 4 ? "float32" : "float64",
                static_cast<long long>(counts.skipped), static_cast<long long>(counts.full),
                static_cast<long long>(counts.partial), run.rule.adjusts() ? counts.staged : counts.masked,
                all.packs_key ? "packed by each chunk" : "in place",
                all.packs_value ? "packed by each chunk" : "in place", bf16_dot_text(run.verb), dropout_text(call).text,
                cut.threads, call.options.executor.given() && cut.threads > 1 ? " (executor)" : "",
                static_cast<long long>(cut.splits_units ? cut.chunks : 1), static_cast<long long>(cut.chunks),
                static_cast<long long>(cut.chunk_keys), counts.scores * flops_per_score(pass), bytes,
                static_cast<unsigned long long>(scratch_bytes(all, cut)));
  std::string lines(text);
  lines.append("gradients: ").append(wanted.empty() ? "none" : wanted).append("\n");
  for (rule_note const& note : notes) note.append_to(lines, counts.masked, counts.staged);
  return lines.append("verbs: ").append(verbs_that_run(all, counts)).append("\n");
}

}  // namespace HEED_ABI
}  // namespace heed::detail
