// A functor is called from several threads at once: it has no state of its own to change.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
  float calls = 0;
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out,
                  heed::score_fn([calls](float score, heed::position) mutable { return score + ++calls; }));
#else
  heed::attention(query, query, query, out,
                  heed::score_fn([calls](float score, heed::position) { return score + calls; }));
#endif
}
