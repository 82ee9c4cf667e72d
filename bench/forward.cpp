// The forward pass in float, without a mask: by length and head size.
//
// The headline cell: --benchmark_filter='^float/full/S2048/D64/H1'
#include "bench/bench.hpp"

namespace {

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (heed::index_t seq_len : {128, 256, 512, 1024, 2048, 4096, 8192}) {
      bench::add_cell({.num_heads = bench::heads_for(seq_len), .seq_len = seq_len, .head_dim = head_dim});
    }
  }
  for (heed::index_t head_dim : {32, 80, 96, 256}) bench::add_cell({.seq_len = 2048, .head_dim = head_dim});
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
