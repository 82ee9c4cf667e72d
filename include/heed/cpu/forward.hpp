// The forward pass on the CPU: what runs, in how many pieces, on how many threads.
#pragma once

#include "heed/base/fp_environment.hpp"
#include "heed/base/thread_pool.hpp"
#include "heed/cpu/piece.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

template <class Real>
[[nodiscard]] kernel<Real> kernel_of(problem const& call, rule_view const& rule, rule_verb<Real> apply) noexcept {
  const double scale = call.options.scale.has_value() ? *call.options.scale
                                                      : 1.0 / __builtin_sqrt(static_cast<double>(call.head_dim_qk));
  return {call,
          verbs_of<Real>(current_isa().level),
          rule,
          apply,
          static_cast<Real>(scale),
          keys_per_block(call.head_dim_qk, call.head_dim_v, static_cast<index_t>(sizeof(Real)))};
}

/// Runs a checked call. Real is the accumulate type.
template <class Real>
void forward(problem const& call, rule_view const& rule, rule_verb<Real> apply) {
  if (call.nothing_to_do()) return;
  const fp_environment environment;
  const kernel<Real> run = kernel_of(call, rule, apply);
  double flops = 0;
  const partition cut = partition_of<Real>(call, rule, run.verb.lanes, &flops);
  parallel_for(cut.items(call), cut.threads, [&](index_t item) {
    const fp_environment worker_environment;
    piece<Real>(run, cut, item).attend();
  });
}

}  // namespace HEED_ABI
}  // namespace heed::detail
