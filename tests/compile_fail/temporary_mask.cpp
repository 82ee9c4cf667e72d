// A mask is a view: the tensor it is made of must outlive the call.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  const auto rule = heed::drop_mask(heed::tensor<bool, 2>({3, 3}));
#else
  heed::tensor<bool, 2> mask({3, 3});
  const auto rule = heed::drop_mask(mask);
#endif
  heed::attention(query, query, query, out, rule);
}
