// A functor is given the position, too.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::score_fn([](float score) { return score; }));
#else
  heed::attention(query, query, query, out, heed::score_fn([](float score, heed::position) { return score; }));
#endif
}
