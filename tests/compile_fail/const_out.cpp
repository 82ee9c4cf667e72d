// An output that is a const tensor.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using output = heed::tensor<float, 2> const;
#else
using output = heed::tensor<float, 2>;
#endif

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& key, output& out) {
  heed::attention(query, key, key, out);
}
