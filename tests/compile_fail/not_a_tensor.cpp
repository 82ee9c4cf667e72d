// Plain memory is no tensor: it has no shape.
#include <heed/heed.hpp>
#include <vector>

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& key, std::vector<float>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, key, key, out);
#else
  heed::attention(query, key, key, heed::tensor_view<float, 2>(out.data(), {query.extent(0), key.extent(1)}));
#endif
}
