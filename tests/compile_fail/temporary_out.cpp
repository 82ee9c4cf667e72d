// A temporary output would be gone with its result.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, heed::into(heed::tensor<float, 2>({3, 3})));
#else
  heed::tensor<float, 2> out({3, 3});
  heed::attention(query, query, query, heed::into(out));
#endif
}
