// A tensor of integers is no operand: attention computes with floating-point elements.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using element = int;
#else
using element = float;
#endif

void test(heed::tensor<element, 2>& query, heed::tensor<float, 2>& key, heed::tensor<float, 2>& out) {
  heed::attention(query, key, key, out);
}
