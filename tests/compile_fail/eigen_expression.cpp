// An Eigen expression has no elements in memory: it is evaluated into a named matrix first.
#include <heed/interop/eigen.hpp>

auto test(Eigen::MatrixXf const& first, Eigen::MatrixXf const& second) {
#ifdef HEED_MISUSE
  return heed::as_view(first * second).size();
#else
  auto const product = (first * second).eval();
  return heed::as_view(product).size();
#endif
}
