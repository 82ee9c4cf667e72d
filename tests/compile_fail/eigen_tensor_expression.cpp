// An expression of the Tensor module has no elements in memory: it is assigned to a tensor first.
#include <heed/interop/eigen.hpp>
#include <unsupported/Eigen/CXX11/Tensor>

auto test(Eigen::Tensor<float, 4> const& first) {
#ifdef HEED_MISUSE
  return heed::as_view(first + first).size();
#else
  const Eigen::Tensor<float, 4> sum = first + first;
  return heed::as_view(sum).size();
#endif
}
