// A gradient that is a view of const elements.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using element = float const;
#else
using element = float;
#endif

void test(heed::tensor_view<element, 2> dq) { (void)heed::gradients(dq, nullptr, nullptr); }
