// What one thread reads from memory, and the roofline of a call that reads more than it computes.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "bench/peak.hpp"

namespace bench {
namespace detail {

/// Adds up numbers in vectors of `Bytes`: eight sums, so that the loads and not the additions are what takes time.
template <class T, int Bytes>
[[gnu::always_inline]] inline T add_up(T const* data, std::size_t count) {
  typedef T vector __attribute__((vector_size(Bytes)));
  constexpr std::size_t lanes = Bytes / sizeof(T), step = 8 * lanes;
  vector sum[8]{};
  for (std::size_t i = 0; i + step <= count; i += step) {
#pragma GCC unroll 8
    for (std::size_t part = 0; part < 8; ++part) {
      vector loaded;
      std::memcpy(&loaded, data + i + part * lanes, sizeof loaded);
      sum[part] += loaded;
    }
  }
  vector total{};
#pragma GCC unroll 8
  for (std::size_t part = 0; part < 8; ++part) total += sum[part];
  T result = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) result += total[lane];
  return result;
}

#if defined(__x86_64__)
[[gnu::noinline, gnu::target("avx512f")]] inline float add_up_64_bytes(float const* data, std::size_t count) {
  return add_up<float, 64>(data, count);
}
[[gnu::noinline, gnu::target("avx2")]] inline float add_up_32_bytes(float const* data, std::size_t count) {
  return add_up<float, 32>(data, count);
}
#endif
[[gnu::noinline]] inline float add_up_16_bytes(float const* data, std::size_t count) {
  return add_up<float, 16>(data, count);
}

using adder = float (*)(float const*, std::size_t);

inline adder adder_of(std::string_view level) {
#if defined(__x86_64__)
  if (level == "v4") return add_up_64_bytes;
  if (level == "v3") return add_up_32_bytes;
#else
  (void)level;
#endif
  return add_up_16_bytes;
}

}  // namespace detail

/// Reads a buffer of four times the last cache in a straight line: afterwards nothing else is in the caches.
class bandwidth_meter {
 public:
  explicit bandwidth_meter(std::string_view level) : add_up_(detail::adder_of(level)) {
    std::size_t cache = std::size_t{32} << 20;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    if (const long known = sysconf(_SC_LEVEL3_CACHE_SIZE); known > 0) {
      cache = (std::max)(cache, static_cast<std::size_t>(known));
    }
#endif
    data_.assign(cache, 1.0f);  // as many floats as the cache has bytes
    (void)read();
  }

  /// Bytes/s of this thread now.
  double read() const {
    const double start = now();
    detail::sink = static_cast<double>(add_up_(data_.data(), data_.size()));
    return static_cast<double>(data_.size() * sizeof(float)) / (now() - start);
  }

 private:
  detail::adder add_up_;
  std::vector<float> data_;
};

/// The flop/s that a call could reach at best: the larger of its bytes over the bandwidth of one thread and its flops
/// over the peak is the least time it takes. Each reading leaves the caches without the operands of the call.
class roofline_meter {
 public:
  roofline_meter(std::string_view level, double flops, double bytes)
      : peak_(peak_loop_of(level, precision::float32), 1), bandwidth_(level), flops_(flops), bytes_(bytes) {}

  double read() {
    const double peak = peak_.read();
    bytes_per_second_ = bandwidth_.read();
    const double rate = flops_ / (std::max)(flops_ / peak, bytes_ / bytes_per_second_);
    best_ = (std::max)(best_, rate);
    return rate;
  }
  double best() const { return best_; }
  int threads() const { return 1; }
  /// Of the last reading.
  double bytes_per_second() const { return bytes_per_second_; }

 private:
  peak_meter peak_;
  bandwidth_meter bandwidth_;
  double flops_, bytes_;
  double bytes_per_second_ = 0;
  double best_ = 0;
};

}  // namespace bench
