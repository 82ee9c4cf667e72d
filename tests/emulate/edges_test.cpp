// A part of the oracle's table that is small enough for an emulated processor: every verb at the edges of its tiles, of
// 16 rows a vector in float and 8 in double, up to three vectors.
#include "support/table.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr index_t edge_rows[] = {1, 8, 15, 16, 17, 32, 33, 47, 48, 49, 64, 65, 97};
constexpr index_t edge_keys[] = {1, 7, 8, 9, 127, 128, 129, 257};
constexpr index_t edge_dims[] = {1, 3, 4, 7, 8, 9, 17, 64, 65};

/// Multiplications of one head.
index_t cost_of(scenario const& s) { return s.rows * s.keys * (s.dim + s.value_dim); }

/// Every number of rows with every number of keys: the edges of tiles and of blocks. Head dims and rules take turns.
template <class T, rules Choice>
void sweep_rows_and_keys() {
  std::size_t turn = 0;
  for (index_t rows : edge_rows) {
    for (index_t keys : edge_keys) {
      scenario s;
      s.seed = 70000 + ++turn;
      s.rows = rows, s.keys = keys;
      s.dim = edge_dims[turn % 9], s.value_dim = edge_dims[(4 * turn + 2) % 9];
      if (cost_of(s) > 150000) s.dim = edge_dims[turn % 5], s.value_dim = edge_dims[(turn + 2) % 5];
      s.rule = static_cast<rule_kind>(turn % static_cast<std::size_t>(rule_kind::count));
      s.with_weights = turn % 2 == 0;
      run_scenario<T, T, T, T, Choice>(s);
      HEED_STOP_ON_FAILURE();
    }
  }
}

/// Every pair of head dims, over few keys: the edges of register tiles.
template <class T, rules Choice>
void sweep_dims() {
  std::size_t turn = 0;
  for (index_t dim : edge_dims) {
    for (index_t value_dim : edge_dims) {
      scenario s;
      s.seed = 71000 + ++turn;
      s.rows = edge_rows[turn % 9], s.keys = edge_keys[turn % 4];
      s.dim = dim, s.value_dim = value_dim;
      s.rule = turn % 3 == 0 ? rule_kind::everything : rule_kind::none;
      run_scenario<T, T, T, T, Choice>(s);
      HEED_STOP_ON_FAILURE();
    }
  }
}

/// Two blocks and a key, two whole tiles and a row, without a mask and with all of them.
template <class T, rules Choice>
void sweep_blocks() {
  for (rule_kind rule : {rule_kind::none, rule_kind::everything}) {
    scenario s;
    s.seed = 72001;
    s.rows = 97, s.keys = 257, s.dim = 64, s.value_dim = 65;
    s.rule = rule;
    s.with_weights = true;
    run_scenario<T, T, T, T, Choice>(s);
    HEED_STOP_ON_FAILURE();
  }
}

/// Layouts, grouped heads, anchors, lengths and hard data, as they are drawn, if they are small.
template <class Q, class K, class O, rules Choice>
void sweep_random(std::uint64_t first, int count) {
  for (std::uint64_t seed = first; count > 0; ++seed) {
    const scenario s = random_scenario(seed);
    if (s.batch * s.heads * cost_of(s) > 100000) continue;
    run_scenario<Q, K, K, O, Choice>(s);
    HEED_STOP_ON_FAILURE();
    --count;
  }
}

TEST(EdgesFloat, RowsAndKeys) { sweep_rows_and_keys<float, rules::all>(); }
TEST(EdgesFloat, HeadDims) { sweep_dims<float, rules::all>(); }
TEST(EdgesFloat, Blocks) { sweep_blocks<float, rules::all>(); }
TEST(EdgesFloat, Random) { sweep_random<float, float, float, rules::all>(73000, 60); }

TEST(EdgesDouble, RowsAndKeys) { sweep_rows_and_keys<double, rules::few>(); }
TEST(EdgesDouble, HeadDims) { sweep_dims<double, rules::few>(); }
TEST(EdgesDouble, Blocks) { sweep_blocks<double, rules::few>(); }
TEST(EdgesDouble, Random) { sweep_random<double, double, double, rules::few>(74000, 40); }

TEST(EdgesNarrow, Half) { sweep_random<half, half, half, rules::few>(75000, 20); }
TEST(EdgesNarrow, Bfloat16) { sweep_random<bfloat16, bfloat16, bfloat16, rules::few>(76000, 20); }
TEST(EdgesNarrow, FloatQueryHalfCache) { sweep_random<float, half, float, rules::few>(77000, 20); }

}  // namespace
