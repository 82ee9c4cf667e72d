// A list of slopes is a view, too.
#include <heed/heed.hpp>

void test(heed::tensor<float, 4>& query, heed::tensor<float, 4>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::alibi{.slopes = heed::alibi_slopes(4)});
#else
  const std::vector<float> slopes = heed::alibi_slopes(4);
  heed::attention(query, query, query, out, heed::alibi{.slopes = slopes});
#endif
}
