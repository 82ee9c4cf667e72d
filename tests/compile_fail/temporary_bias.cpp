// A bias is a view: the tensor it is made of must outlive the call.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  const auto rule = heed::bias(heed::tensor<float, 2>({3, 3}));
#else
  heed::tensor<float, 2> terms({3, 3});
  const auto rule = heed::bias(terms);
#endif
  heed::attention(query, query, query, out, rule);
}
