// [B, S, H, D], where the rows of a head lie far apart, and grouped heads, which share keys and values.
#include "bench/bench.hpp"

namespace {

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (heed::index_t num_heads : {16, 32}) {
      bench::shape at{.num_heads = num_heads, .seq_len = 2048, .head_dim = head_dim};
      at.layout = bench::layout::bshd;
      bench::add_cell(at);
      at.num_kv_heads = num_heads / 4;
      bench::add_cell(at);
    }
    bench::add_cell({.num_heads = 16, .num_kv_heads = 4, .seq_len = 2048, .head_dim = head_dim});
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
