// saved is given the tensors that attention wrote, not what named them as outputs.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& out, heed::tensor<float, 1>& lse) {
#ifdef HEED_MISUSE
  (void)heed::saved(heed::into(out), lse);
#else
  (void)heed::saved(out, lse);
#endif
}
