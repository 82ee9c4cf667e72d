// A view of a temporary tensor would look at memory that is gone.
#include <heed/heed.hpp>

heed::index_t test() {
#ifdef HEED_MISUSE
  const auto heads = heed::split_heads(heed::tensor<float, 3>({1, 2, 8}), 4);
#else
  const heed::tensor<float, 3> packed({1, 2, 8});
  const auto heads = heed::split_heads(packed, 4);
#endif
  return heads.size();
}
