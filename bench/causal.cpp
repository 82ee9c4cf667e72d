// The causal forward pass in float: half the scores, so half the flops count.
#include "bench/bench.hpp"

namespace {

void add_all() {
  for (heed::index_t head_dim : {64, 128}) {
    for (heed::index_t seq_len : {128, 256, 512, 1024, 2048, 4096, 8192}) {
      bench::add_cell(
          {.num_heads = bench::heads_for(seq_len), .seq_len = seq_len, .head_dim = head_dim, .is_causal = true});
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
