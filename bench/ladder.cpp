// Where the speed comes from, rung by rung on one shape: textbook loops, Eigen's products, Eigen's products by blocks
// that stay in the caches, heed.
#include <functional>

#include "bench/baselines.hpp"
#include "bench/bench.hpp"

namespace {

using rung = std::function<void(bench::head_block const&)>;

void add_rung(char const* name, bench::shape const& at, rung const& climb) {
  const auto run = [climb](benchmark::State& state, bench::shape const& on, bench::call& one) {
    const bench::head_block heads = bench::head_block_of(on, one);
    bench::peak_meter peak(bench::peak_loop_of(bench::level(), bench::precision::float32), 1);
    for (auto _ : state) {
      bench::count(state, bench::measure([&] { climb(heads); }, on.flops(), peak), on.flops());
    }
    bench::count_error(state, one.largest_error(), bench::error_limit(on));
  };
  bench::add_cell(at, run, name + ("/" + at.name()));
}

void add_all() {
  for (bench::shape const& at :
       {bench::shape{.num_heads = 4, .seq_len = 128, .head_dim = 64}, {.seq_len = 2048, .head_dim = 64}}) {
    add_rung("1_naive_loops", at, bench::naive_loops);
    add_rung(bench::eigen_is_native() ? "2_eigen_products" : "2_eigen_products_baseline", at, bench::eigen_products);
    add_rung(bench::eigen_is_native() ? "3_eigen_blocks" : "3_eigen_blocks_baseline", at, bench::eigen_blocks);
    bench::add_cell(at, bench::measure_cell, "4_heed/" + at.name());
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
