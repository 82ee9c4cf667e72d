// More gradients are members of `gradients`, not further arguments.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out, heed::tensor<float, 1>& lse,
          heed::tensor<float, 2>& terms, heed::tensor<float, 2>& dq, heed::tensor<float, 2>& d_terms) {
  const auto wanted = heed::gradients(dq, nullptr, nullptr);
#ifdef HEED_MISUSE
  heed::attention_backward(query, query, query, heed::saved(out, lse), out, wanted, d_terms);
  (void)terms;
#else
  heed::attention_backward(query, query, query, heed::saved(out, lse), out, wanted.bias(d_terms), heed::bias(terms));
#endif
}
