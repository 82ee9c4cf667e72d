// One query row for each head, or some, against many keys, which lie cold in memory: share of the roofline.
#include "bench/bench.hpp"

namespace {

using bench::element;

void measure_decode(benchmark::State& state, bench::shape const& at, bench::call& one) {
  bench::roofline_meter roofline(bench::level(), at.flops(), at.bytes());
  bench::sampling how = bench::lenient();
  how.seconds_per_sample = 0;  // a second call would find keys and values in the caches
  for (auto _ : state) {
    bench::count(state, bench::measure([&] { one.run(at.threads); }, at.flops(), roofline, how), at.flops());
  }
  state.counters["bytes"] = at.bytes() / (state.counters["ms"] * 1e-3);
  state.counters["bandwidth"] = roofline.bytes_per_second();
  bench::count_error(state, one.largest_error(), bench::error_limit(at));
  state.counters["scratch"] = one.scratch_bytes(at.threads);
}

void add_all() {
  struct heads {
    element type;
    heed::index_t query, kv;
  };
  for (heads const& one :
       {heads{element::float32, 32, 32}, heads{element::float32, 32, 8}, heads{element::float32, 32, 1},
        heads{element::bfloat16, 32, 32}, heads{element::bfloat16, 32, 8}, heads{element::bfloat16, 32, 4},
        heads{element::bfloat16, 32, 1}}) {
    for (heed::index_t seq_len : {4096, 16384}) {
      bench::add_cell({.type = one.type,
                       .num_heads = one.query,
                       .num_kv_heads = one.kv,
                       .query_len = 1,
                       .seq_len = seq_len,
                       .head_dim = 128},
                      measure_decode);
    }
  }
  // What is checked at once of guessed tokens, and pieces of a long prompt.
  for (const element type : {element::float32, element::bfloat16}) {
    for (heed::index_t query_len : {4, 8, 16, 32, 64}) {
      bench::add_cell({.type = type, .num_heads = 32, .query_len = query_len, .seq_len = 4096, .head_dim = 128},
                      measure_decode);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_benches(argc, argv,
                            {{"share", "share of roofline", 1, "%.3f"},
                             {"low", "10 %", 1, "%.3f"},
                             {"high", "90 %", 1, "%.3f"},
                             {"counted", "counted", 1, "%.0f"},
                             {"tried", "of", 1, "%.0f"},
                             {"ms", "ms", 1, "%.4g"},
                             {"bytes", "GB/s", 1e-9, "%.1f"},
                             {"bandwidth", "read bandwidth", 1e-9, "%.1f"},
                             {"flops", "GFLOP/s", 1e-9, "%.1f"},
                             {"peak", "roofline", 1e-9, "%.1f"},
                             {"error", "max error", 1, "%.1e"},
                             {"scratch", "scratch KiB", 1.0 / 1024, "%.0f"}},
                            add_all);
}
