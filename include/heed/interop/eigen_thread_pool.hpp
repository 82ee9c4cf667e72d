// Eigen's ThreadPool as an executor: `heed::eigen_executor workers(pool);`, then {.executor = workers}.
#pragma once

#if !defined(EIGEN_CXX11_THREADPOOL_MODULE)  // else: the user's own copy of Eigen, wherever it lies
#if __has_include(<unsupported/Eigen/CXX11/ThreadPool>)
#include <unsupported/Eigen/CXX11/ThreadPool>
#elif __has_include(<eigen3/unsupported/Eigen/CXX11/ThreadPool>)
#include <eigen3/unsupported/Eigen/CXX11/ThreadPool>
#else
#error \
    "heed/interop/eigen_thread_pool.hpp needs Eigen 3.4 or later: install it (Debian: libeigen3-dev) and add its folder with -I."
#endif
#endif

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>

#include "heed/base/executor.hpp"

namespace heed {
inline namespace HEED_ABI {

/// Runs tasks on the threads of an Eigen::ThreadPool (any Eigen::ThreadPoolInterface; of a ThreadPoolDevice it is
/// getPool()), which must live on.
///
/// Threads: the calling thread works too, beside as many of the pool's as the call may use. So a call from one of the
///   pool's own threads cannot wait for itself: whatever no other thread has begun, the caller does.
/// Memory: each call allocates a little, which its last task frees.
/// One serves all threads.
class eigen_executor {
 public:
  explicit eigen_executor(Eigen::ThreadPoolInterface& pool) noexcept : pool_(&pool) {}
  explicit eigen_executor(Eigen::ThreadPoolInterface&&) = delete;

  [[nodiscard]] int concurrency() const { return pool_->NumThreads(); }

  template <class Body>
  void parallel_for(index_t count, Body const& body) const {
    // Shared, because tasks that find nothing left to do may begin when the call is long over.
    const auto shared = std::make_shared<progress<Body>>(count, body);
    for (index_t helper = 1; helper < count && schedule(shared); ++helper) {
    }
    shared->work();
    shared->wait();
  }

 private:
  template <class Body>
  class progress {
   public:
    progress(index_t count, Body const& body) : count_(count), body_(body) {}

    void work() {
      std::unique_lock<std::mutex> lock(mutex_);
      while (next_ < count_) {
        const index_t mine = next_++;
        lock.unlock();
        body_(mine);
        lock.lock();
        if (++done_ == count_) all_done_.notify_all();
      }
    }
    void wait() {
      std::unique_lock<std::mutex> lock(mutex_);
      all_done_.wait(lock, [&] { return done_ == count_; });
    }

   private:
    const index_t count_;
    const Body body_;
    std::mutex mutex_;
    std::condition_variable all_done_;
    index_t next_ = 0;
    index_t done_ = 0;
  };

  /// False where there is no memory for one more task: then those that there are do the work.
  template <class Body>
  [[nodiscard]] bool schedule(std::shared_ptr<progress<Body>> const& shared) const {
#if HEED_EXCEPTIONS
    try {
      pool_->Schedule([shared] { shared->work(); });
    } catch (std::bad_alloc const&) {
      return false;
    }
#else
    pool_->Schedule([shared] { shared->work(); });
#endif
    return true;
  }

  Eigen::ThreadPoolInterface* pool_;
};

}  // namespace HEED_ABI
}  // namespace heed
