// A mask is asked about positions, not about scores.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::mask_fn([](float score) { return score > 0; }));
#else
  heed::attention(query, query, query, out, heed::mask_fn([](heed::position at) { return at.key > 0; }));
#endif
}
