// An output other than out that is a tensor of integers.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using element = int;
#else
using element = float;
#endif

void test(heed::tensor<float, 2>& out, heed::tensor<element, 4>& weights) { (void)heed::into(out).weights(weights); }
