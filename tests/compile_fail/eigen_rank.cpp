// The rank of a matrix is 2; only what is a vector by its type may be seen with either rank.
#include <heed/interop/eigen.hpp>

auto test(Eigen::MatrixXf const& matrix) {
#ifdef HEED_MISUSE
  return heed::as_view<1>(matrix).size();
#else
  return heed::as_view<1>(matrix.col(0)).size() + heed::as_view<2>(matrix.col(0)).size();
#endif
}
