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

/// What `backward` would do with the same arguments.
template <class Real>
[[nodiscard]] std::string explain_backward(backward_problem const& pass, rule_view const& rule,
                                           rule_gradient_verb<Real> rule_gradient, stage_gradient* stages,
                                           index_t stage_count, list<float> const* sinks, index_t sink_count,
                                           std::vector<rule_note>& notes) {
  problem const& call = pass.call;
  const kernel<Real> run = kernel_of<Real>(call, rule, {}, verbs_of<Real, false>(false));
  gradient_call<Real> work{
      run, gradient_verbs_of<Real>(current_isa().level), rule_gradient, pass, stages, stage_count, sinks, sink_count};
  plan(work);
  const gradient_cut cut = cut_of(work);
  partition tiles;
  tiles.rows_per_item = greater(1, call.seq_len_q);
  block_counts all;
  for (index_t batch = 0; batch < call.batch_size; ++batch) {
    count_blocks(run, tiles, sequence_of(call, rule, batch), batch, false, all, notes);
  }
  const index_t units = call.batch_size * call.num_kv_heads;
  std::size_t scratch = 0;
  if (units > 0) {
    const std::size_t threads = static_cast<std::size_t>(cut.threads);
    scratch = threads * gradient_unit<Real>::work_bytes(work) +
              (cut.splits_units ? 1 : threads) * gradient_unit<Real>::tile_bytes(work) +
              (cut.splits_units ? gradient_unit<Real>::flag_bytes(work, cut.chunks) : 0);
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
  char text[800];
  std::snprintf(
      text, sizeof text,
      "isa: %s\n"
      "tile: %lld queries x %lld keys\n"
      "accumulate: %s\n"
      "blocks: skipped %lld, full %lld, partial %lld\n"
      "elements evaluated: %.0f\n"
      "key: %s\n"
      "value: %s\n"
      "bf16_dot: off\n"
      "dropout: %s\n"
      "threads: %d%s\n"
      "splits: %lld\n"
      "flops: %.0f\n"
      "bytes: %.0f\n"
      "scratch: %llu\n",
      isa_name(current_isa().level), static_cast<long long>(3 * run.verb.lanes), static_cast<long long>(run.block_keys),
      sizeof(Real) == 4 ? "float32" : "float64", static_cast<long long>(all.skipped), static_cast<long long>(all.full),
      static_cast<long long>(all.partial), rule.adjusts ? all.staged : all.masked,
      work.packs_key ? "packed" : "in place", work.packs_value ? "packed" : "in place", dropout_text(call).text,
      units > 0 ? cut.threads : 0, call.options.executor.given() && cut.threads > 1 ? " (executor)" : "",
      static_cast<long long>(cut.splits_units ? cut.chunks : 1), all.scores * flops_per_score(pass), bytes,
      static_cast<unsigned long long>(scratch));
  std::string lines(text);
  lines.append("gradients: ").append(wanted.empty() ? "none" : wanted).append("\n");
  for (rule_note const& note : notes) note.append_to(lines, all.masked, all.staged);
  return lines;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
