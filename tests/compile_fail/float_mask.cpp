// Numbers are never read as true or false.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using element = float;
#else
using element = bool;
#endif

void test(heed::tensor<float, 2>& query, heed::tensor<element, 2>& mask, heed::tensor<float, 2>& out) {
  heed::attention(query, query, query, out, heed::keep_mask(mask));
}
