// Eigen's ThreadPool as an executor.
#include "heed/interop/eigen_thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "support/executors.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(EigenThreadPool, IsAnExecutor) {
  for (int threads : {1, 2, 4}) {
    Eigen::ThreadPool pool(threads);
    eigen_executor executor(pool);
    EXPECT_EQ(executor.concurrency(), threads);
    executor_battery(executor).run();
  }
}

TEST(EigenThreadPool, UsesItsThreadsAndTheCallers) {
  Eigen::ThreadPool pool(2);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  eigen_executor(pool).parallel_for(3, [&](index_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::lock_guard<std::mutex> lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 3u) << "three tasks of 50 ms: two threads and the caller";
  EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
}

// Every thread of the pool is inside a call, so that nobody is left to take what the calls schedule.
TEST(EigenThreadPool, CallsFromAllOfItsThreadsAtOnceDoNotWaitForEachOther) {
  const attention_inputs in;
  const auto expected = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
  Eigen::ThreadPool pool(2);
  eigen_executor executor(pool);
  std::atomic<int> arrived{0}, right{0};
  Eigen::Barrier done(2);
  for (int call = 0; call < 2; ++call) {
    pool.Schedule([&] {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      const auto found = attend(in.q, in.k, in.v, causal{}, {.threads = 4, .executor = executor});
      right += same_bits(expected.out, found.out) ? 1 : 0;
      done.Notify();
    });
  }
  done.Wait();
  EXPECT_EQ(right, 2);
}

// What is still in the queue when the call is over finds nothing to do, also when the executor is gone by then.
TEST(EigenThreadPool, LateTasksDoNothing) {
  Eigen::ThreadPool pool(1);
  std::atomic<bool> release{false};
  std::atomic<int> ran{0};
  pool.Schedule([&] {
    while (!release) std::this_thread::yield();
  });
  eigen_executor(pool).parallel_for(5, [&](index_t) { ++ran; });
  EXPECT_EQ(ran, 5);
  Eigen::Barrier done(1);
  pool.Schedule([&] { done.Notify(); });
  release = true;
  done.Wait();
  EXPECT_EQ(ran, 5);
}

}  // namespace
