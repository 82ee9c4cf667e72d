// Queries twenty times as large: most probabilities are so small that float holds them as subnormal numbers, which slow
// a processor down by a factor of up to a hundred. Beside the same call on ordinary queries, in turn.
#include "bench/bench.hpp"

namespace {

void measure_denormals(benchmark::State& state, bench::shape const& at, bench::call& one) {
  bench::measure_cell(state, at, one);
  bench::shape ordinary = at;
  ordinary.query_scale = 1;
  const auto other = bench::make_call(ordinary);
  bench::call_meter beside([&] { other->run(at.threads); }, at.flops(), at.threads);
  state.counters["ratio"] = bench::measure([&] { one.run(at.threads); }, at.flops(), beside, bench::lenient()).share;
}

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (bool is_causal : {false, true}) {
      for (heed::index_t seq_len : {512, 2048}) {
        bench::add_cell({.num_heads = bench::heads_for(seq_len),
                         .seq_len = seq_len,
                         .head_dim = head_dim,
                         .is_causal = is_causal,
                         .query_scale = 20},
                        measure_denormals);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benches(argc, argv, bench::peak_columns({{"ratio", "of ordinary", 1, "%.3f"}}), add_all);
}
