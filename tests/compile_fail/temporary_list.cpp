// A list is a view: the container it is made of must outlive the call.
#include <heed/heed.hpp>
#include <vector>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::lengths{.key = std::vector<heed::index_t>{2}});
#else
  const std::vector<heed::index_t> key_lengths{2};
  heed::attention(query, query, query, out, heed::lengths{.key = key_lengths});
#endif
}
