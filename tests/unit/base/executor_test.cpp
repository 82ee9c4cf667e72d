// The reference to an executor, and parallel_for on one: every item once, on no more tasks than asked for.
#include "heed/base/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <type_traits>
#include <vector>

#include "heed/base/workers.hpp"

namespace {

using heed::executor_ref;
using heed::index_t;
using heed::detail::parallel_for;
using heed::detail::workers;

struct serial {
  int threads = 4;
  index_t asked = 0;
  int calls = 0;

  [[nodiscard]] int concurrency() const { return threads; }
  void parallel_for(index_t count, heed::parallel_body body) {
    ++calls;
    asked = count;
    for (index_t i = 0; i < count; ++i) body(i);
  }
};

struct silent {
  static void parallel_for(index_t count, std::function<void(index_t)> const& body) {
    for (index_t i = count; i-- > 0;) body(i);
  }
};

struct constant {
  template <class Body>
  void parallel_for(index_t count, Body body) const {
    for (index_t i = 0; i < count; ++i) body(i);
  }
};

struct threaded {
  static void parallel_for(index_t count, heed::parallel_body body) {
    std::vector<std::thread> all;
    for (index_t i = 0; i < count; ++i) all.emplace_back([=] { body(i); });
    for (auto& one : all) one.join();
  }
};

static_assert(heed::executor_type<serial> && heed::executor_type<silent> && heed::executor_type<constant const>);
static_assert(!heed::executor_type<serial const> && !heed::executor_type<int> && !heed::executor_type<std::thread>);
static_assert(std::is_trivially_copyable_v<executor_ref> && sizeof(executor_ref) <= 3 * sizeof(void*));

template <class Executor>
void expect_each_item_once(index_t count, int threads, Executor& executor) {
  std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
  parallel_for(count, workers{executor, threads}, [&](index_t item) { ++taken[static_cast<std::size_t>(item)]; });
  for (auto const& times : taken) EXPECT_EQ(times.load(), 1);
}

TEST(ExecutorRef, RefersAndSaysWhatTheExecutorSays) {
  EXPECT_FALSE(executor_ref().given());
  EXPECT_EQ(executor_ref().concurrency(), 0);
  serial counted;
  const executor_ref reference = counted, copy = reference;
  EXPECT_TRUE(copy.given());
  EXPECT_EQ(copy.concurrency(), 4);
  counted.threads = -1;
  EXPECT_EQ(copy.concurrency(), 1) << "less than one thread is one";
  silent uncounted;
  EXPECT_EQ(executor_ref(uncounted).concurrency(), 0);
}

TEST(ParallelForOnAnExecutor, TakesEachItemOnce) {
  serial one;
  silent two;
  const constant three;
  threaded four;
  for (index_t count : {0, 1, 2, 3, 100}) {
    for (int threads : {1, 2, 3, 7}) {
      expect_each_item_once(count, threads, one);
      expect_each_item_once(count, threads, two);
      expect_each_item_once(count, threads, three);
      expect_each_item_once(count, threads, four);
    }
  }
}

TEST(ParallelForOnAnExecutor, GivesAtMostAsManyTasksAsThreadsAndItems) {
  serial executor;
  expect_each_item_once(100, 7, executor);
  EXPECT_EQ(executor.asked, 7);
  expect_each_item_once(3, 7, executor);
  EXPECT_EQ(executor.asked, 3);
  EXPECT_EQ(executor.calls, 2);
  expect_each_item_once(100, 1, executor);
  expect_each_item_once(1, 7, executor);
  EXPECT_EQ(executor.calls, 2) << "one thread is the caller's own";
}

TEST(ParallelForOnAnExecutor, ACallInsideACallStaysOnItsThread) {
  serial executor;
  std::atomic<int> inner{0}, elsewhere{0};
  parallel_for(4, workers{executor, 4}, [&](index_t) {
    const auto here = std::this_thread::get_id();
    EXPECT_EQ((workers{executor, 4}).available(), 1);
    parallel_for(8, workers{executor, 4}, [&](index_t) {
      ++inner;
      elsewhere += std::this_thread::get_id() == here ? 0 : 1;
    });
    parallel_for(8, 4, heed::detail::dealing::by_thread,
                 [&](index_t) { elsewhere += std::this_thread::get_id() == here ? 0 : 1; });
  });
  EXPECT_EQ(executor.calls, 1);
  EXPECT_EQ(inner, 32);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ParallelForOnAnExecutor, WithoutAnExecutorThePoolDoesIt) {
  std::vector<std::atomic<int>> taken(50);
  parallel_for(50, workers{.threads = 3}, [&](index_t item) { ++taken[static_cast<std::size_t>(item)]; });
  for (auto const& times : taken) EXPECT_EQ(times.load(), 1);
  EXPECT_EQ(workers{}.available(), heed::detail::available_processors());
  silent uncounted;
  EXPECT_EQ((workers{uncounted, 0}).available(), heed::detail::available_processors());
  serial counted;
  EXPECT_EQ((workers{counted, 0}).available(), 4);
}

}  // namespace
