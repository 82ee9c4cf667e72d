// The pool: every item once, on no more threads than asked for, whatever its callers do.
#include "heed/base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/sanitizers.hpp"

namespace {

using heed::index_t;
using heed::detail::dealing;
using heed::detail::parallel_for;

void expect_each_item_once(index_t count, int threads) {
  for (const dealing deal : {dealing::by_thread, dealing::in_order}) {
    std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
    parallel_for(count, threads, deal, [&](index_t item) { taken[static_cast<std::size_t>(item)]++; });
    for (auto const& times : taken) EXPECT_EQ(times.load(), 1);
  }
}

TEST(ThreadPool, TakesEachItemOnce) {
  for (index_t count : {0, 1, 2, 3, 100}) {
    for (int threads : {1, 2, 3, 7}) expect_each_item_once(count, threads);
  }
}

TEST(ThreadPool, KeepsToTheNumberOfThreads) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  parallel_for(64, 3, dealing::by_thread, [&](index_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard<std::mutex> lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_LE(seen.size(), 3u);
  EXPECT_GE(seen.size(), 2u) << "nobody helped with 64 ms of work";
  seen.clear();
  parallel_for(64, 1, dealing::by_thread, [&](index_t) { seen.insert(std::this_thread::get_id()); });
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
}

#if defined(__x86_64__)
/// Whatever the threads were started in, and whatever the caller's rounding is.
TEST(ThreadPool, ItemsRunInTheEnvironmentOfTheKernels) {
  const int before = std::fegetround();
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const unsigned upward = __builtin_ia32_stmxcsr();
  std::atomic<int> others{0};
  parallel_for(64, 3, dealing::by_thread, [&](index_t) {
    constexpr unsigned flags = 0x3f, nearest_flushing = 0x9fc0;
    if ((__builtin_ia32_stmxcsr() & ~flags) != nearest_flushing) ++others;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const unsigned after = __builtin_ia32_stmxcsr();
  ASSERT_EQ(std::fesetround(before), 0);
  EXPECT_EQ(others.load(), 0);
  EXPECT_EQ(after, upward);
}
#endif

TEST(ThreadPool, ACallInsideACallStaysOnItsThread) {
  std::atomic<int> outer{0}, inner{0}, elsewhere{0};
  parallel_for(8, 4, dealing::by_thread, [&](index_t) {
    ++outer;
    const auto here = std::this_thread::get_id();
    parallel_for(8, 4, dealing::by_thread, [&](index_t) {
      ++inner;
      if (std::this_thread::get_id() != here) ++elsewhere;
    });
  });
  EXPECT_EQ(outer, 8);
  EXPECT_EQ(inner, 64);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ThreadPool, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 16; ++caller) {
    callers.emplace_back([] {
      for (int round = 0; round < 50; ++round) expect_each_item_once(17, 3);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

#if HEED_EXCEPTIONS
TEST(ThreadPool, AnExceptionComesBackToTheCaller) {
  for (int threads : {1, 4}) {
    try {
      parallel_for(100, threads, dealing::by_thread, [](index_t item) {
        if (item == 17) throw std::runtime_error("seventeen");
      });
      FAIL() << "nothing was thrown on " << threads << " threads";
    } catch (std::runtime_error const& error) {
      EXPECT_STREQ(error.what(), "seventeen");
    }
    expect_each_item_once(50, threads);
  }
}
#endif

// A worker that last ran on the caller's processor would wait there until the system moves it.
TEST(ThreadPool, AWorkerIsSentAwayFromTheProcessorOfTheCaller) {
  if (heed::detail::available_processors() < 2) GTEST_SKIP() << "one processor only";
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  expect_each_item_once(64, 2);
  heed::detail::pool_state& pool = heed::detail::pool;
  for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &all)) continue;
    std::thread([&] {
      const int here = sched_getcpu();
      pthread_mutex_lock(&pool.mutex);
      pool.processors[0] = here;
      pthread_mutex_unlock(&pool.mutex);
      expect_each_item_once(64, 2);
      cpu_set_t mask;
      CPU_ZERO(&mask);
      ASSERT_EQ(pthread_getaffinity_np(pool.workers[0], sizeof mask, &mask), 0);
      EXPECT_GE(CPU_COUNT(&mask), CPU_COUNT(&all) - 1);
      EXPECT_TRUE(sched_getcpu() != here || !CPU_ISSET(static_cast<std::size_t>(here), &mask));
    }).join();
  }
}

TEST(ThreadPool, WorkersRunWhereTheCallerMay) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    std::size_t first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::atomic<int> elsewhere{0};
    parallel_for(64, 2, dealing::by_thread, [&](index_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (sched_getcpu() != static_cast<int>(first)) ++elsewhere;
    });
    EXPECT_EQ(elsewhere, 0);
  }).join();
  expect_each_item_once(64, 2);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ASSERT_EQ(pthread_getaffinity_np(heed::detail::pool.workers[0], sizeof mask, &mask), 0);
  EXPECT_GE(CPU_COUNT(&mask), CPU_COUNT(&all) - 1) << "the wider mask of this caller holds again";
}

#if !HEED_TEST_TSAN  // which refuses threads after a fork
TEST(ThreadPool, IsRebuiltAfterAFork) {
  expect_each_item_once(20, 3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> sum{0};
    parallel_for(20, 3, dealing::by_thread, [&](index_t) { ++sum; });
    _exit(sum == 20 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expect_each_item_once(20, 3);
}
#endif

}  // namespace
