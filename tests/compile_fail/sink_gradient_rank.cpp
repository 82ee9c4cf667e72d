// A sink has one logit for each head, so its gradient has one axis.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
constexpr std::size_t rank = 2;
#else
constexpr std::size_t rank = 1;
#endif

void test(heed::tensor<float, 2>& dq, heed::tensor<float, rank>& logits) {
  (void)heed::gradients(dq, nullptr, nullptr).sink(logits);
}
