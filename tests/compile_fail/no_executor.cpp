// A pool without a parallel_for wants an adaptor.
#include <heed/heed.hpp>

struct pool {
  void submit(void (*)()) {}
};
struct adaptor {
  pool* threads;

  template <class Body>
  void parallel_for(heed::index_t count, Body const& body) const {
    for (heed::index_t i = 0; i < count; ++i) body(i);
  }
};

void test(heed::tensor<float, 2>& query, heed::tensor<float, 2>& out, pool& threads) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out, heed::causal{}, {.threads = 2, .executor = threads});
#else
  const adaptor executor{&threads};
  heed::attention(query, query, query, out, heed::causal{}, {.threads = 2, .executor = executor});
#endif
}
