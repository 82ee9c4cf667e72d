// A functor is a rule once it is said whether it hides or changes scores.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
  const auto own = [](heed::position at) { return at.key <= at.query; };
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, own);
#else
  heed::attention(query, query, query, out, heed::mask_fn(own));
#endif
}
