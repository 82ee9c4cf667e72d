// So would the gradient of a bias.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& dq) {
#ifdef HEED_MISUSE
  (void)heed::gradients(dq, nullptr, nullptr).bias(heed::tensor<float, 2>({3, 3}));
#else
  heed::tensor<float, 2> terms({3, 3});
  (void)heed::gradients(dq, nullptr, nullptr).bias(terms);
#endif
}
