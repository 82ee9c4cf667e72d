// A bar for jobs that take a while, on a terminal only.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace attend {

class progress {
 public:
  /// `total` is in any unit of work.
  progress(char const* label, double total) : label_(label), total_(total) {
    shown_ = ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  }
  ~progress() { clear(); }
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;

  void add(double work) {
    done_ += work;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    // A job that is done within two seconds needs no bar.
    if (!shown_ || total_ <= 0 || (!drawn_ && seconds * total_ / done_ < 2)) return;
    constexpr int width = 40;
    const int filled = std::min(static_cast<int>(done_ / total_ * width), width);
    std::fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%  %.0f s left \033[K", label_, filled,
                 "########################################", width - filled, "", 100 * done_ / total_,
                 seconds * (total_ - done_) / done_);
    std::fflush(stderr);
    drawn_ = true;
  }
  void clear() {
    if (drawn_) std::fprintf(stderr, "\r\033[K");
    drawn_ = false;
  }

 private:
  char const* label_;
  double total_;
  double done_ = 0;
  bool shown_ = false, drawn_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace attend
