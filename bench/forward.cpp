// The forward pass: share of the FMA peak by length, head size, mask, element type, layout and threads.
//
// The headline cell: --benchmark_filter='^float/full/S2048/D64/H1/'
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/bench.hpp"

namespace {

using bench::shape;

/// The number on the line "scratch: N" of heed::explain.
double scratch_bytes(std::string const& explanation) {
  constexpr std::string_view label = "scratch: ";
  const auto begin = explanation.find(label);
  return begin == std::string::npos ? 0.0 : std::strtod(explanation.c_str() + begin + label.size(), nullptr);
}

template <class T, class Rule>
void measure_forward(benchmark::State& state, shape const& at, Rule const& rule) {
  bench::operands<T> data(at);
  const auto query = data.query(), key = data.key(), value = data.value(), out = data.out();
  const heed::attention_options options{.threads = at.threads};
  constexpr auto type = sizeof(T) == 8 ? bench::precision::float64 : bench::precision::float32;
  bench::peak_meter meter(bench::peak_loop_of(heed::active_isa(), type), at.threads);

  for (auto _ : state) {
    const auto found =
        bench::measure([&] { heed::attention(query, key, value, out, rule, options); }, at.flops(), meter);
    bench::count(state, found, at.flops());
  }
  state.counters["error"] = data.largest_error(rule);
  state.counters["scratch"] = scratch_bytes(heed::explain(query, key, value, out, rule, options));
}

template <class T>
void add(char const* type, shape at) {
  for (bool is_causal : {false, true}) {
    at.is_causal = is_causal;
    const auto run = [at](benchmark::State& state) {
      if (at.is_causal) {
        measure_forward<T>(state, at, heed::causal{});
      } else {
        measure_forward<T>(state, at, heed::no_mask{});
      }
    };
    benchmark::RegisterBenchmark((type + ("/" + at.name())).c_str(), run)->Iterations(1)->UseManualTime();
  }
}

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (heed::index_t seq_len : {128, 512, 1024, 2048, 4096}) {
      const heed::index_t heads = seq_len <= 1024 ? 4 : 1;
      add<float>("float", {.num_heads = heads, .num_kv_heads = heads, .seq_len = seq_len, .head_dim = head_dim});
    }
  }
  for (heed::index_t head_dim : {32, 80, 96, 256}) add<float>("float", {.seq_len = 2048, .head_dim = head_dim});
  for (heed::index_t head_dim : {64, 128}) {
    add<heed::half>("half", {.seq_len = 2048, .head_dim = head_dim});
    add<heed::bfloat16>("bfloat16", {.seq_len = 2048, .head_dim = head_dim});
    add<double>("double", {.seq_len = 2048, .head_dim = head_dim});
  }
  for (heed::index_t head_dim : {64, 128}) {
    shape strided{.num_heads = 16, .num_kv_heads = 16, .seq_len = 2048, .head_dim = head_dim};
    strided.layout = bench::layout::bshd;
    add<float>("float", strided);
    strided.num_kv_heads = 4;
    add<float>("float", strided);
    add<float>("float", {.num_heads = 16, .num_kv_heads = 4, .seq_len = 2048, .head_dim = head_dim});
  }
  for (heed::index_t head_dim : {64, 128}) {
    add<float>("float", {.seq_len = 4096, .head_dim = head_dim, .threads = 2});
    add<float>("float", {.num_heads = 4, .num_kv_heads = 4, .seq_len = 1024, .head_dim = head_dim, .threads = 2});
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
