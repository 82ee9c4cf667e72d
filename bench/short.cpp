// Whole calls on little: one short head, its operands in the caches, checks and all; and many short heads, each of
// which arrives cold from beyond the caches of the core.
#include "bench/bench.hpp"

namespace {

void add_all() {
  for (heed::index_t seq_len : {8, 16, 32, 64, 197}) bench::add_cell({.seq_len = seq_len, .head_dim = 64});
  bench::add_cell({.batch_size = 16, .num_heads = 12, .seq_len = 128, .head_dim = 64});
  bench::add_cell({.batch_size = 8, .num_heads = 12, .seq_len = 197, .head_dim = 64});
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
