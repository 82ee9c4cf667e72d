// An Eigen matrix is no operand as it is; the message names as_view.
#include <heed/heed.hpp>
#include <heed/interop/eigen.hpp>

void test(Eigen::MatrixXf const& query, heed::tensor<float, 2>& out) {
#ifdef HEED_MISUSE
  heed::attention(query, query, query, out);
#else
  heed::attention(heed::as_view(query), heed::as_view(query), heed::as_view(query), out);
#endif
}
