// Ids are a view: the container they are in must outlive the call.
#include <heed/heed.hpp>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::documents{.ids = std::vector<heed::index_t>{2}});
#else
  const std::vector<heed::index_t> ids{2};
  heed::attention(query, query, query, out, heed::documents{.ids = ids});
#endif
}
