// The other element types. bfloat16 and half are compared with the peak of float: a processor that multiplies bfloat16
// faster may exceed it.
#include "bench/bench.hpp"

namespace {

using bench::element;

void add_all() {
  for (element type : {element::bfloat16, element::float16, element::float64}) {
    for (heed::index_t head_dim : {64, 128}) {
      for (heed::index_t seq_len : {512, 2048}) {
        bench::add_cell(
            {.type = type, .num_heads = bench::heads_for(seq_len), .seq_len = seq_len, .head_dim = head_dim});
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run_benches(argc, argv, bench::peak_columns(), add_all); }
