// A score_fn in the rule of a backward pass has a derivative.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out, heed::tensor<float, 1>& lse,
          heed::tensor<float, 2>& dq) {
#ifdef HEED_MISUSE
  const auto rule = heed::score_fn([](double score, heed::position) { return 0.5 * score; });
#else
  const auto rule = heed::score_fn([](auto score, heed::position) { return score / 2; });
#endif
  heed::attention_backward(query, query, query, heed::saved(out, lse), out, heed::gradients(dq, nullptr, nullptr),
                           rule);
}
