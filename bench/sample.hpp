// The sampler: a function is timed many times, each time between two readings of a yardstick.
//
// A yardstick has `double read()`, the flop/s that count as 1 at this moment; `double best()`, the best reading yet;
// and `int threads()`, how many threads the function keeps busy. peak_meter, roofline_meter and call_meter are
// yardsticks.
#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "bench/peak.hpp"

namespace bench {

/// How long a cell may take; on a busy machine a longer time finds more samples that count.
inline double seconds_per_cell() {
  char const* const text = std::getenv("HEED_BENCH_SECONDS");
  const double seconds = text == nullptr ? 0 : std::strtod(text, nullptr);
  return seconds > 0 ? seconds : 3;
}

/// When to stop, and which samples count.
struct sampling {
  int wanted = 41;   ///< samples that count
  int at_least = 5;  ///< samples, whatever the time
  double seconds = seconds_per_cell();
  double seconds_per_sample = 1.5e-3;  ///< a shorter function is called several times in a sample; 0: called once
  double agreement = 0.02;             ///< between the two readings of the yardstick
  double nearness = 0.07;              ///< of both readings to the best one
  double presence = 0.99;              ///< of the time, a single thread has its core
};

/// For yardsticks that touch memory, whose readings scatter more.
inline sampling lenient() {
  sampling how;
  how.agreement = 0.06;
  how.nearness = 0.2;
  return how;
}

/// What came out. Shares are flop/s over the mean of the two readings beside the sample.
struct measurement {
  double share;    ///< median
  double low;      ///< 10th percentile
  double high;     ///< 90th percentile
  double seconds;  ///< of one call, median
  double peak;     ///< flop/s, median of the readings
  int counted;     ///< samples that count; 0: none did, and the figures are those of all samples
  int tried;
};

/// The value below which `fraction` of the numbers lie.
inline double quantile(std::vector<double> numbers, double fraction) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  const double place = fraction * static_cast<double>(numbers.size() - 1);
  return numbers[static_cast<std::size_t>(std::lround(place))];
}

namespace detail {

inline double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct samples {
  std::vector<double> shares, seconds, peaks;

  void add(double share, double time, double peak) {
    shares.push_back(share);
    seconds.push_back(time);
    peaks.push_back(peak);
  }
  int size() const { return static_cast<int>(shares.size()); }
};

/// How often a function is called in a sample: as often as it takes to fill the time.
template <class Call>
int calls_per_sample(Call const& call, double seconds) {
  call();  // caches, page tables, threads
  if (seconds <= 0) return 1;
  double quickest = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = now();
    call();
    quickest = (std::min)(quickest, now() - start);
  }
  return (std::max)(1, static_cast<int>(seconds / quickest));
}

}  // namespace detail

/// Collects the samples of one function, which computes `flops`.
template <class Call>
class sampler {
 public:
  sampler(Call call, double flops, sampling const& how)
      : call_(std::move(call)),
        flops_(flops),
        how_(how),
        calls_(detail::calls_per_sample(call_, how.seconds_per_sample)) {}

  template <class Yardstick>
  void take(Yardstick& yardstick) {
    const double before = yardstick.read();
    const double cpu_start = detail::thread_cpu_seconds();
    const double start = now();
    for (int i = 0; i < calls_; ++i) call_();
    const double wall = now() - start;
    const double cpu = detail::thread_cpu_seconds() - cpu_start;
    const double after = yardstick.read();

    const double peak = (before + after) / 2;
    const double seconds = wall / calls_;
    const double share = flops_ / seconds / peak;
    all_.add(share, seconds, peak);
    const bool agree = std::abs(before - after) <= how_.agreement * peak;
    const bool near_best = (std::min)(before, after) >= (1 - how_.nearness) * yardstick.best();
    const bool present = yardstick.threads() > 1 || cpu >= how_.presence * wall;
    if (agree && near_best && present) counted_.add(share, seconds, peak);
  }

  bool wants_more(double seconds_spent) const {
    return counted_.size() < how_.wanted && (seconds_spent < how_.seconds || all_.size() < how_.at_least);
  }

  measurement result() const {
    detail::samples const& best = counted_.size() == 0 ? all_ : counted_;
    return {quantile(best.shares, 0.5),
            quantile(best.shares, 0.1),
            quantile(best.shares, 0.9),
            quantile(best.seconds, 0.5),
            quantile(best.peaks, 0.5),
            counted_.size(),
            all_.size()};
  }

 private:
  Call call_;
  double flops_;
  sampling how_;
  int calls_;
  detail::samples all_, counted_;
};

/// Times `call`, which computes `flops`, against a yardstick.
template <class Call, class Yardstick>
measurement measure(Call const& call, double flops, Yardstick& yardstick, sampling const& how = {}) {
  sampler<Call> one(call, flops, how);
  const double begin = now();
  while (one.wants_more(now() - begin)) one.take(yardstick);
  return one.result();
}

/// Times several functions that compute the same, in turn, so that a slow minute strikes all of them alike.
template <class Yardstick>
std::vector<measurement> measure_in_turn(std::vector<std::function<void()>> const& calls, double flops,
                                         Yardstick& yardstick, sampling how = {}) {
  how.seconds *= static_cast<double>(calls.size());
  std::vector<sampler<std::function<void()>>> all;
  for (auto const& call : calls) all.emplace_back(call, flops, how);
  const double begin = now();
  const auto wants_more = [&](auto const& one) { return one.wants_more(now() - begin); };
  while (std::any_of(all.begin(), all.end(), wants_more)) {
    for (auto& one : all) one.take(yardstick);
  }
  std::vector<measurement> results;
  for (auto const& one : all) results.push_back(one.result());
  return results;
}

/// Another call as the yardstick: how much quicker is this one than that one?
class call_meter {
 public:
  /// `call` computes `flops`; `threads` is the number of threads of the function that is compared with it.
  call_meter(std::function<void()> call, double flops, int threads)
      : call_(std::move(call)), flops_(flops), threads_(threads), calls_(detail::calls_per_sample(call_, 1.5e-3)) {}

  double read() {
    const double start = now();
    for (int i = 0; i < calls_; ++i) call_();
    const double rate = flops_ * calls_ / (now() - start);
    best_ = (std::max)(best_, rate);
    return rate;
  }
  double best() const { return best_; }
  int threads() const { return threads_; }

 private:
  std::function<void()> call_;
  double flops_;
  int threads_;
  int calls_;
  double best_ = 0;
};

}  // namespace bench
