// What this machine could do at most: multiply-adds per second from registers alone, on so many threads at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace attend {

/// GFLOP/s of one thread with vectors of `Bytes` bytes. Twelve chains hide the latency of each.
template <class Scalar, int Bytes>
[[gnu::always_inline]] inline double spin() {
  typedef Scalar pack __attribute__((vector_size(Bytes)));
  constexpr int chains = 12, lanes = Bytes / static_cast<int>(sizeof(Scalar)), rounds = 20000;
  // The compiler must not know the numbers, and no chain may start at the value that it tends to: it would be folded.
  volatile Scalar factor = Scalar(0.999), addend = Scalar(0.001);
  const pack x = factor - pack{}, y = addend - pack{};
  pack a[chains];
  for (int i = 0; i < chains; ++i) a[i] = (Scalar(1.5) + static_cast<Scalar>(i)) - pack{};
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  double best = 0;
  while (clock::now() - begin < std::chrono::milliseconds(30)) {
    const auto start = clock::now();
    for (int round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
      for (int i = 0; i < chains; ++i) a[i] = a[i] * x + y;
    }
    const double seconds = std::chrono::duration<double>(clock::now() - start).count();
    best = std::max(best, 2.0 * chains * lanes * rounds / seconds * 1e-9);
  }
  volatile Scalar sink = 0;
  for (int i = 0; i < chains; ++i) sink = sink + a[i][0];
  return best;
}

template <class Scalar>
double peak_of_this_thread() {
#if defined(__x86_64__)
  struct at {
    [[gnu::target("avx512f"), gnu::flatten]] static double avx512() { return spin<Scalar, 64>(); }
    [[gnu::target("avx2,fma"), gnu::flatten]] static double avx2() { return spin<Scalar, 32>(); }
  };
  if (__builtin_cpu_supports("avx512f")) return at::avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return at::avx2();
#endif
  return spin<Scalar, 16>();
}

/// All threads at once: they share cores and power as the job's threads do.
template <class Scalar>
double peak_gflops(int threads) {
  std::vector<double> each(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < each.size(); ++i) {
    others.emplace_back([&each, i] { each[i] = peak_of_this_thread<Scalar>(); });
  }
  each[0] = peak_of_this_thread<Scalar>();
  for (std::thread& thread : others) thread.join();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

}  // namespace attend
