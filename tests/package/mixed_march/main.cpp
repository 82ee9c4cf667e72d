// Runs the baseline unit, and with the argument "both" the AVX unit, too; their results must agree.
#include <cmath>
#include <cstdio>
#include <cstring>

double unit_avx();
double unit_baseline();

int main(int count, char** arguments) {
  const double baseline = unit_baseline();
  std::printf("baseline unit: %.9f\n", baseline);
  if (!(baseline > -1e6)) return 1;
  if (count < 2 || std::strcmp(arguments[1], "both") != 0) return 0;
  const double avx = unit_avx();
  std::printf("AVX unit:      %.9f\n", avx);
  return std::fabs(avx - baseline) < 1e-3 ? 0 : 1;
}
