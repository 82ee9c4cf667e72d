// A dry run of the backward pass: the same questions to the masks, but no element is read.
#pragma once

#include <string>
#include <vector>

#include "heed/cpu/explain.hpp"
#include "heed/view/backward_problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// The products of one score with a row that a backward pass takes: scores anew and the gradients of probabilities,
/// then what is wanted of dq, dk and dv.
[[nodiscard]] inline double flops_per_score(backward_problem const& pass) noexcept {
  const double qk = static_cast<double>(pass.call.head_dim_qk), v = static_cast<double>(pass.call.head_dim_v);
  return 2.0 * (qk + v + (pass.dq.given() ? qk : 0) + (pass.dk.given() ? qk : 0) + (pass.dv.given() ? v : 0));
}

/// `verb` is that of full precision: probabilities are never rounded here.
template <class Real>
[[nodiscard]] std::string explain_backward(backward_problem const& pass, rule_view const& rule,
                                           std::vector<rule_note>& notes, verbs<Real> const& verb) {
  problem const& call = pass.call;
  const kernel<Real> run = kernel_of<Real>(call, rule, {}, verb);
  double estimate = 0;
  const partition cut = partition_of(run, &estimate);
  block_counts all;
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    count_blocks(run, cut, sequence_of(call, rule, batch), batch, false, all, notes);
  }
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
  char text[600];
  std::snprintf(text, sizeof text,
                "isa: %s\n"
                "tile: %lld queries x %lld keys\n"
                "accumulate: %s\n"
                "blocks: skipped %lld, full %lld, partial %lld\n"
                "elements evaluated: %.0f\n"
                "bf16_dot: off\n"
                "flops: %.0f\n"
                "bytes: %.0f\n",
                isa_name(current_isa().level), static_cast<long long>(3 * run.verb.lanes),
                static_cast<long long>(run.block_keys), sizeof(Real) == 4 ? "float32" : "float64",
                static_cast<long long>(all.skipped), static_cast<long long>(all.full),
                static_cast<long long>(all.partial), rule.adjusts ? all.staged : all.masked,
                all.scores * flops_per_score(pass), bytes);
  std::string lines(text);
  lines.append("gradients: ").append(wanted.empty() ? "none" : wanted).append("\n");
  for (rule_note const& note : notes) note.append_to(lines, all.masked, all.staged);
  return lines;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
