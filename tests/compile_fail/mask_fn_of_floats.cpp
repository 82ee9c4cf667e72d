// A mask says yes or no; a number with a fraction is a bias.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out,
                  heed::mask_fn([](heed::position at) { return 0.5f * static_cast<float>(at.key); }));
#else
  heed::attention(query, query, query, out, heed::mask_fn([](heed::position at) { return at.key % 2; }));
#endif
}
