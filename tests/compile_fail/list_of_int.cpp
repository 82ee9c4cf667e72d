// A list is read where it lies: its numbers must already be of the right type.
#include <heed/heed.hpp>
#include <vector>

#ifdef HEED_MISUSE
using number = int;
#else
using number = heed::index_t;
#endif

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
  const std::vector<number> key_lengths{2};
  heed::attention(query, query, query, out, heed::lengths{.key = key_lengths});
}
