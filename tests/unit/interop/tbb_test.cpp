// oneTBB's threads as an executor.
#include "heed/interop/tbb.hpp"

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/executors.hpp"

namespace {

namespace tbb = oneapi::tbb;
using namespace heed;
using namespace heed::test;

/// More threads than this machine may have processors.
class Tbb : public testing::Test {
  tbb::global_control four_{tbb::global_control::max_allowed_parallelism, 4};
};

TEST_F(Tbb, IsAnExecutor) {
  tbb_executor here;
  executor_battery(here).run();
  for (int slots : {1, 2, 4}) {
    tbb::task_arena arena(slots);
    tbb_executor apart(arena);
    EXPECT_EQ(apart.concurrency(), slots);
    executor_battery(apart).run();
  }
}

TEST_F(Tbb, UsesTheSlotsOfItsArena) {
  tbb::task_arena arena(3);
  std::atomic<int> arrived{0}, met{0};
  tbb_executor(arena).parallel_for(3, [&](index_t) { met += meet(arrived, 3) ? 1 : 0; });
  EXPECT_EQ(met, 3) << "three tasks on three threads at the same time";
}

TEST_F(Tbb, CallsInsideParallelLoops) {
  const attention_inputs in;
  const auto expected = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
  tbb::task_arena arena(3);
  tbb_executor same, apart(arena);
  std::atomic<int> right{0};
  tbb::parallel_for(0, 16, [&](int call) {
    tbb_executor& executor = call % 2 == 0 ? same : apart;
    const auto found = attend(in.q, in.k, in.v, causal{}, {.threads = 4, .executor = executor});
    right += same_bits(expected.out, found.out) ? 1 : 0;
  });
  EXPECT_EQ(right, 16);
}

// A thread that waits for its call must not begin another task of the program, which may want what it holds.
TEST_F(Tbb, AWaitingCallerTakesNoForeignTask) {
  tbb::task_arena arena(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> arrived{0};
  std::atomic<bool> foreign_ran{false}, foreign_ran_here{false};
  tbb_executor(arena).parallel_for(2, [&](index_t) {
    if (!meet(arrived, 2)) foreign_ran = true;
    if (foreign_ran || std::this_thread::get_id() == caller) return;  // and waits for the other one
    arena.enqueue([&] {
      foreign_ran_here = std::this_thread::get_id() == caller;
      foreign_ran = true;
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!foreign_ran && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  ASSERT_EQ(arrived, 2);
  const bool ran_during_the_call = foreign_ran;
  while (!foreign_ran) std::this_thread::yield();
  EXPECT_FALSE(ran_during_the_call && foreign_ran_here);
}

TEST_F(Tbb, ACancelledGroupAroundTheCallDoesNotTearIt) {
  const attention_inputs in;
  const auto expected = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
  tbb_executor executor;
  tbb::task_group_context group;
  std::atomic<int> calls{0}, right{0};
  tbb::parallel_for(
      0, 8,
      [&](int) {
        ++calls;
        group.cancel_group_execution();
        const auto found = attend(in.q, in.k, in.v, causal{}, {.threads = 4, .executor = executor});
        right += same_bits(expected.out, found.out) ? 1 : 0;
      },
      tbb::simple_partitioner{}, group);
  EXPECT_GE(calls, 1);
  EXPECT_EQ(right, calls);
}

}  // namespace
