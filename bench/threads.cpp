// Two threads beside one, in turn: the speed-up, and the share of the peak of both cores.
#include "bench/bench.hpp"

namespace {

void measure_threads(benchmark::State& state, bench::shape const& at, bench::call& one) {
  bench::measure_cell(state, at, one);
  bench::call_meter alone([&] { one.run(1); }, at.flops(), at.threads);
  const auto together = bench::measure([&] { one.run(at.threads); }, at.flops(), alone, bench::lenient());
  state.counters["speedup"] = together.share;
  state.counters["alone"] = at.flops() / together.peak * 1e3;
}

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (bool is_causal : {false, true}) {
      for (heed::index_t seq_len : {128, 1024, 4096}) {
        bench::add_cell({.num_heads = bench::heads_for(seq_len),
                         .seq_len = seq_len,
                         .head_dim = head_dim,
                         .is_causal = is_causal,
                         .threads = 2},
                        measure_threads);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benches(
      argc, argv, bench::peak_columns({{"speedup", "speed-up", 1, "%.2f"}, {"alone", "ms, one thread", 1, "%.4g"}}),
      add_all);
}
