// A temporary matrix is gone before its view is read: it gets a name first.
#include <heed/interop/eigen.hpp>

auto test(Eigen::MatrixXf const& first, Eigen::MatrixXf const& second) {
#ifdef HEED_MISUSE
  return heed::as_view((first + second).eval()).size();
#else
  auto const sum = (first + second).eval();
  return heed::as_view(sum).size();
#endif
}
