// heed beside Eigen's own products and oneDNN: the same operands, one process, in turn. The rivals that are Python
// packages are in rivals.py.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/baselines.hpp"
#include "bench/bench.hpp"
#if defined(HEED_BENCH_ONEDNN)
#include "bench/rivals/onednn.hpp"
#endif

namespace {

struct contender {
  char const* counter;
  std::function<void()> run;
};

std::vector<contender> contenders(bench::shape const& at, bench::call& one) {
  const bench::head_block heads = bench::head_block_of(at, one);
  std::vector<contender> all = {{"heed", [&one] { one.run(1); }},
                                {"eigen", [heads] { bench::eigen_products(heads); }},
                                {"blocks", [heads] { bench::eigen_blocks(heads); }}};
#if defined(HEED_BENCH_ONEDNN)
  all.push_back({"onednn", bench::onednn_attention(heads)});
#endif
  return all;
}

void measure_rivals(benchmark::State& state, bench::shape const& at, bench::call& one) {
  const auto all = contenders(at, one);
  double error = 0;
  std::vector<std::function<void()>> calls;
  for (contender const& each : all) {
    each.run();
    error = (std::max)(error, one.largest_error());
    calls.push_back(each.run);
  }
  bench::peak_meter peak(bench::peak_loop_of(bench::level(), bench::precision::float32), 1);
  std::vector<bench::measurement> found;
  for (auto _ : state) {
    found = bench::measure_in_turn(calls, at.flops(), peak);
    state.SetIterationTime(found[0].seconds);
  }
  double best = 0;
  int counted = found[0].counted;
  for (std::size_t i = 0; i < found.size(); ++i) {
    state.counters[all[i].counter] = found[i].share;
    if (i > 0) best = (std::max)(best, found[i].share);
    counted = (std::min)(counted, found[i].counted);
  }
  state.counters["ratio"] = found[0].share / best;
  state.counters["counted"] = counted;
  bench::count_error(state, error, bench::error_limit(at));
}

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (heed::index_t seq_len : {128, 512, 1024, 2048, 4096}) {
      bench::add_cell({.num_heads = bench::heads_for(seq_len), .seq_len = seq_len, .head_dim = head_dim},
                      measure_rivals);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<bench::column> columns = {
      {"heed", "heed", 1, "%.3f"}, {"eigen", "Eigen", 1, "%.3f"}, {"blocks", "Eigen by blocks", 1, "%.3f"}};
#if defined(HEED_BENCH_ONEDNN)
  columns.push_back({"onednn", "oneDNN", 1, "%.3f"});
#endif
  columns.push_back({"ratio", "heed over the best", 1, "%.2f"});
  columns.push_back({"counted", "counted", 1, "%.0f"});
  columns.push_back({"error", "max error", 1, "%.1e"});
  return bench::run_benches(argc, argv, columns, add_all);
}
