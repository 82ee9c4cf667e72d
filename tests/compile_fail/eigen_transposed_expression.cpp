// A transposed matrix is in memory, a transposed sum is not, though Eigen gives both the same members.
#include <heed/interop/eigen.hpp>

auto test(Eigen::MatrixXf const& first, Eigen::MatrixXf const& second) {
#ifdef HEED_MISUSE
  return heed::as_view((first + second).transpose()).size();
#else
  return heed::as_view(first.transpose()).size() + heed::as_view(second.transpose()).size();
#endif
}
