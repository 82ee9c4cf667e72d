// The FMA peak: what a core reaches in a loop of nothing but multiplies and adds, the yardstick of every figure here.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace bench {

enum class precision { float32, float64 };

/// Seconds since some moment.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A loop, and what one turn of it computes.
struct peak_loop {
  char const* name;
  double flops_per_turn;
  void (*run)(std::int64_t turns);
};

namespace detail {

// Read by every loop and unknown to the compiler, so that no turn can be computed beforehand.
inline const volatile double multiplier = 0.999;
inline const volatile double addend = 0.001;
inline volatile double sink;

/// chain = chain * factor + term: one FMA, where the instruction set has it.
template <class T, class Vector>
[[gnu::always_inline]] inline void step(Vector& chain, Vector const& factor, Vector const& term) {
#if defined(__x86_64__) && !defined(__AVX__)
  // g++ puts the multiplies first and the adds last, which costs the loop 7 %.
  if constexpr (sizeof(Vector) == 16 && sizeof(T) == 4) {
    asm volatile("mulps %1, %0\n\taddps %2, %0" : "+x"(chain) : "x"(factor), "x"(term));
    return;
  } else if constexpr (sizeof(Vector) == 16) {
    asm volatile("mulpd %1, %0\n\taddpd %2, %0" : "+x"(chain) : "x"(factor), "x"(term));
    return;
  }
#endif
  chain = chain * factor + term;
}

/// `Chains` vectors that each depend on themselves alone: enough of them to hide the latency of a multiply and an add.
/// They start at different values, none of which is the fixed point.
template <class T, int Bytes, std::size_t Chains>
[[gnu::always_inline]] inline void turn_chains(std::int64_t turns) {
  typedef T vector __attribute__((vector_size(Bytes)));
  const vector factor = static_cast<T>(multiplier) - vector{};
  const vector term = static_cast<T>(addend) - vector{};
  vector chain[Chains];
#pragma GCC unroll 32
  for (std::size_t i = 0; i < Chains; ++i) chain[i] = static_cast<T>(1.5 + static_cast<double>(i)) - vector{};
  for (; turns > 0; --turns) {
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Chains; ++i) step<T>(chain[i], factor, term);
  }
  vector sum{};
#pragma GCC unroll 32
  for (std::size_t i = 0; i < Chains; ++i) sum += chain[i];
  T total{};
  for (int lane = 0; lane < Bytes / static_cast<int>(sizeof(T)); ++lane) total += sum[lane];
  sink = static_cast<double>(total);
}

// All chains, the factor and the term have to fit the registers: 16, or 32 of 64 bytes and on aarch64.
#if defined(__x86_64__)
template <class T>
[[gnu::noinline, gnu::target("avx512f,fma")]] void turn_64_bytes(std::int64_t turns) {
  turn_chains<T, 64, 24>(turns);
}
template <class T>
[[gnu::noinline, gnu::target("avx2,fma")]] void turn_32_bytes(std::int64_t turns) {
  turn_chains<T, 32, 12>(turns);
}
inline constexpr std::size_t chains_of_16_bytes = 14;
#else
inline constexpr std::size_t chains_of_16_bytes = 24;
#endif
template <class T>
[[gnu::noinline]] void turn_16_bytes(std::int64_t turns) {
  turn_chains<T, 16, chains_of_16_bytes>(turns);
}

template <class T>
peak_loop loop_of(std::string_view level) {
  constexpr bool single = sizeof(T) == 4;
  constexpr double lane = static_cast<double>(sizeof(T));
#if defined(__x86_64__)
  if (level == "v4") return {single ? "512-bit float" : "512-bit double", 24 * 2 * 64 / lane, turn_64_bytes<T>};
  if (level == "v3") return {single ? "256-bit float" : "256-bit double", 12 * 2 * 32 / lane, turn_32_bytes<T>};
#else
  (void)level;
#endif
  return {single ? "128-bit float" : "128-bit double", chains_of_16_bytes * 2 * 16 / lane, turn_16_bytes<T>};
}

}  // namespace detail

/// The loop of the widest vectors that a level ("v1", "v3", "v4", "neon") has. v1 has no FMA: its loop multiplies and
/// adds.
inline peak_loop peak_loop_of(std::string_view level, precision type) {
  return type == precision::float64 ? detail::loop_of<double>(level) : detail::loop_of<float>(level);
}

/// Reads the peak of some cores again and again, and keeps the best.
class peak_meter {
 public:
  static constexpr double seconds_per_reading = 4e-4;

  peak_meter(peak_loop loop, int threads) : loop_(loop), threads_(threads) {
    constexpr std::int64_t trial = 20000;
    double quickest = 1;
    for (int i = 0; i < 20; ++i) {
      const double start = now();
      loop_.run(trial);
      quickest = (std::min)(quickest, now() - start);
    }
    turns_ = static_cast<std::int64_t>(static_cast<double>(trial) * seconds_per_reading / quickest) + 1;
    for (int i = 0; i < 20; ++i) (void)read();
  }

  /// flop/s now: of one core, or of `threads` of them at once.
  double read() {
    const double rate = threads_ == 1 ? rate_of_this_thread() : rate_of_all_threads();
    best_ = (std::max)(best_, rate);
    return rate;
  }
  double best() const { return best_; }
  int threads() const { return threads_; }
  peak_loop const& loop() const { return loop_; }

 private:
  double rate_of_this_thread() const {
    const double start = now();
    loop_.run(turns_);
    return static_cast<double>(turns_) * loop_.flops_per_turn / (now() - start);
  }

  double rate_of_all_threads() const {
    std::atomic<int> missing{threads_};
    std::vector<double> rates(static_cast<std::size_t>(threads_));
    const auto run = [&](double& rate) {
      missing.fetch_sub(1);
      while (missing.load() > 0) {
      }
      rate = rate_of_this_thread();
    };
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < rates.size(); ++i) others.emplace_back(run, std::ref(rates[i]));
    run(rates[0]);
    for (auto& other : others) other.join();
    double sum = 0;
    for (double rate : rates) sum += rate;
    return sum;
  }

  peak_loop loop_;
  int threads_;
  std::int64_t turns_ = 0;
  double best_ = 0;
};

}  // namespace bench
