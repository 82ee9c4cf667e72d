// Eigen's ThreadPool as an executor.
#include "heed/interop/eigen_thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
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
  const auto caller = std::this_thread::get_id();
  std::atomic<int> arrived{0}, met{0}, met_here{0};
  eigen_executor(pool).parallel_for(3, [&](index_t) {
    if (!meet(arrived, 3)) return;
    ++met;
    met_here += std::this_thread::get_id() == caller ? 1 : 0;
  });
  EXPECT_EQ(met, 3) << "three tasks at the same time: on two threads and the caller's";
  EXPECT_EQ(met_here, 1);
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
