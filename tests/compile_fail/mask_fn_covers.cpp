// The second functor of mask_fn answers for blocks.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out,
                  heed::mask_fn([](heed::position) { return true; }, [](heed::block) { return true; }));
#else
  heed::attention(query, query, query, out,
                  heed::mask_fn([](heed::position) { return true; }, [](heed::block) { return heed::cover::full; }));
#endif
}
