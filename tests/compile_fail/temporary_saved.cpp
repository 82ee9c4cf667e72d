// What is saved must be there when the backward pass reads it.
#include <heed/heed.hpp>

void test(heed::tensor<float, 4>& query, heed::tensor<float, 3>& lse) {
#ifdef HEED_MISUSE
  (void)heed::saved(heed::attention(query, query, query), lse);
#else
  const auto out = heed::attention(query, query, query);
  (void)heed::saved(out, lse);
#endif
}
