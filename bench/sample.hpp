// The sampler: a function is timed many times, each time between two readings of the peak.
#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
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
  double seconds_per_sample = 1.5e-3;  ///< a shorter function is called several times in a sample
  double agreement = 0.02;             ///< between the two readings of the peak
  double nearness = 0.07;              ///< of both readings to the best one
  double presence = 0.99;              ///< of the time, a single thread has its core
};

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
};

}  // namespace detail

/// Times `call`, which computes `flops`, against the peak of as many cores as the meter reads.
template <class Call>
measurement measure(Call const& call, double flops, peak_meter& meter, sampling const& how = {}) {
  call();  // caches, page tables, threads
  double quickest = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = now();
    call();
    quickest = (std::min)(quickest, now() - start);
  }
  const int calls = (std::max)(1, static_cast<int>(how.seconds_per_sample / quickest));

  detail::samples all, counted;
  const double begin = now();
  while (static_cast<int>(counted.shares.size()) < how.wanted &&
         (now() - begin < how.seconds || static_cast<int>(all.shares.size()) < how.at_least)) {
    const double before = meter.read();
    const double cpu_start = detail::thread_cpu_seconds();
    const double start = now();
    for (int i = 0; i < calls; ++i) call();
    const double wall = now() - start;
    const double cpu = detail::thread_cpu_seconds() - cpu_start;
    const double after = meter.read();

    const double peak = (before + after) / 2;
    const double seconds = wall / calls;
    const double share = flops / seconds / peak;
    all.add(share, seconds, peak);
    const bool agree = std::abs(before - after) <= how.agreement * peak;
    const bool near_best = (std::min)(before, after) >= (1 - how.nearness) * meter.best();
    const bool present = meter.threads() > 1 || cpu >= how.presence * wall;
    if (agree && near_best && present) counted.add(share, seconds, peak);
  }

  detail::samples const& best = counted.shares.empty() ? all : counted;
  return {quantile(best.shares, 0.5),         quantile(best.shares, 0.1), quantile(best.shares, 0.9),
          quantile(best.seconds, 0.5),        quantile(best.peaks, 0.5),  static_cast<int>(counted.shares.size()),
          static_cast<int>(all.shares.size())};
}

}  // namespace bench
