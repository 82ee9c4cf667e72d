// The consumer that every way of getting heed is tested with: it calls attention and checks the numbers.
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>

int main() {
  float q[] = {1, 0, 0, 1}, k[] = {1, 0, 1, 1, 0, 1}, v[] = {1, 0, 0, 2, 1, 1}, o[4] = {};
  heed::attention(heed::tensor_view<float, 2>(q, {2, 2}), heed::tensor_view<float, 2>(k, {3, 2}),
                  heed::tensor_view<float, 2>(v, {3, 2}), heed::tensor_view<float, 2>(o, {2, 2}));
  const double right[] = {0.5988879073, 1.0, 0.5988879073, 1.2033362780};
  for (int i = 0; i < 4; ++i) {
    std::printf("%.4f ", static_cast<double>(o[i]));
    if (!(std::fabs(static_cast<double>(o[i]) - right[i]) < 2e-6)) {
      std::printf("is not %.6f\n", right[i]);
      return 1;
    }
  }
  std::printf("heed %d.%d.%d\n", HEED_VERSION_MAJOR, HEED_VERSION_MINOR, HEED_VERSION_PATCH);
  return 0;
}
