// A functor gives the score that is to be used.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::score_fn([](auto& score, heed::position) { score += 1; }));
#else
  heed::attention(query, query, query, out, heed::score_fn([](auto score, heed::position) { return score + 1; }));
#endif
}
