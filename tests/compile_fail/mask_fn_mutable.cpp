// A functor that changes itself would differ from thread to thread.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::mask_fn([calls = 0](heed::position) mutable { return ++calls > 0; }));
#else
  heed::attention(query, query, query, out, heed::mask_fn([calls = 0](heed::position) { return calls == 0; }));
#endif
}
