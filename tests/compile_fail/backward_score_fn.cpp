// A functor of float has no derivative unless it is given.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out, heed::tensor<float, 1>& lse,
          heed::tensor<float, 2>& dq) {
  const auto square = [](float score, heed::position) { return score * score; };
#ifdef HEED_MISUSE
  const heed::score_fn stage(square);
#else
  const heed::score_fn stage(square, [](float score, heed::position) { return 2 * score; });
#endif
  heed::attention_backward(query, query, query, heed::saved(out, lse), out, heed::gradients(dq, nullptr, nullptr),
                           stage);
}
