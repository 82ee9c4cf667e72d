// An output that is a view of const elements.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
using element = float const;
#else
using element = float;
#endif

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& key, heed::tensor_view<element, 2> out) {
  heed::attention(query, key, key, heed::into(out));
}
