// Numbers are never read as true or false.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using map_type = heed::tensor_view<int, 2>;
#else
using map_type = heed::tensor<bool, 2>;
#endif

void test(heed::tensor<float, 2>& query, map_type& map, heed::tensor<float, 2>& out) {
  heed::attention(query, query, query, out, heed::block_sparse{.blocks = map, .block_rows = 32, .block_keys = 32});
}
