// A temporary gradient would be gone with its result.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& dk, heed::tensor<float, 2>& dv) {
#ifdef HEED_MISUSE
  (void)heed::gradients(heed::tensor<float, 2>({3, 3}), dk, dv);
#else
  heed::tensor<float, 2> dq({3, 3});
  (void)heed::gradients(dq, dk, dv);
#endif
}
