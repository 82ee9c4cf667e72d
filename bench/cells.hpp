// What the benches of one call do with a shape: a cell of Google Benchmark that measures, compares, counts.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "bench/call.hpp"
#include "bench/peak.hpp"
#include "bench/report.hpp"
#include "bench/sample.hpp"
#include "bench/shapes.hpp"

namespace bench {

inline precision accumulates_in(shape const& at) {
  return at.type == element::float64 ? precision::float64 : precision::float32;
}

/// The call on `at`, beside the peak of as many cores as it has threads.
inline void measure_cell(benchmark::State& state, shape const& at, call& one) {
  peak_meter peak(peak_loop_of(level(), accumulates_in(at)), at.threads);
  for (auto _ : state) count(state, measure([&] { one.run(at.threads); }, at.flops(), peak), at.flops());
  count_error(state, one.largest_error(), error_limit(at));
  state.counters["scratch"] = one.scratch_bytes(at.threads);
}

/// Registers `run(state, at, call)` as the cell of that shape; `name` if it is not the shape's own.
template <class Run>
void add_cell(shape const& at, Run const& run, std::string const& name = {}) {
  const auto whole = [at, run](benchmark::State& state) {
    const std::unique_ptr<call> one = make_call(at);
    run(state, at, *one);
  };
  benchmark::RegisterBenchmark((name.empty() ? at.name() : name).c_str(), whole)->Iterations(1)->UseManualTime();
}
inline void add_cell(shape const& at) { add_cell(at, measure_cell); }

}  // namespace bench
