// An executor is referred to: it must outlive the call.
#include <heed/heed.hpp>

struct serial {
  static void parallel_for(heed::index_t count, heed::parallel_body body) {
    for (heed::index_t i = 0; i < count; ++i) body(i);
  }
};

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, {.executor = serial{}});
#else
  serial executor;
  heed::attention(query, query, query, out, {.executor = executor});
#endif
}
