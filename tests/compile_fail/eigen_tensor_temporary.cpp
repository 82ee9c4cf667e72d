// A temporary tensor is gone before its view is read; a map of memory is not.
#include <heed/interop/eigen.hpp>
#include <unsupported/Eigen/CXX11/Tensor>

auto test(float* memory) {
#ifdef HEED_MISUSE
  return heed::as_view(Eigen::Tensor<float, 2>(3, 4)).size() + (memory != nullptr);
#else
  return heed::as_view(Eigen::TensorMap<Eigen::Tensor<float, 2> >(memory, 3, 4)).size();
#endif
}
