// A Ref to const may hold a copy of its own, so a temporary one is refused like a matrix.
#include <heed/interop/eigen.hpp>

auto test(Eigen::MatrixXf const& first) {
#ifdef HEED_MISUSE
  return heed::as_view(Eigen::Ref<Eigen::MatrixXf const>(first * first)).size();
#else
  Eigen::Ref<Eigen::MatrixXf const> const square(first * first);
  return heed::as_view(square).size();
#endif
}
