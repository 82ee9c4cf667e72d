// A backward pass is given out together with its lse.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out, heed::tensor<float, 1>& lse,
          heed::tensor<float, 2>& dq) {
#ifdef HEED_MISUSE
  heed::attention_backward(query, query, query, out, out, heed::gradients(dq, nullptr, nullptr));
  (void)lse;
#else
  heed::attention_backward(query, query, query, heed::saved(out, lse), out, heed::gradients(dq, nullptr, nullptr));
#endif
}
