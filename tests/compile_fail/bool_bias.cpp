// A bool tensor is a mask, never a term.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using element = bool;
#else
using element = double;
#endif

void test(heed::tensor<float, 2>& query, heed::tensor<element, 2>& terms, heed::tensor<float, 2>& out) {
  heed::attention(query, query, query, out, heed::bias(terms));
}
