// A map of blocks is a view: it must outlive the call.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::block_sparse{.blocks = heed::bigbird_blocks(8, 8)});
#else
  const auto map = heed::bigbird_blocks(8, 8);
  heed::attention(query, query, query, out, heed::block_sparse{.blocks = map});
#endif
}
