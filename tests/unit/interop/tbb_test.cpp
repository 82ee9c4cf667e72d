// oneTBB's threads as an executor.
#include "heed/interop/tbb.hpp"

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <atomic>
#include <chrono>

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
  static thread_local int depth = 0;
  std::atomic<int> deepest{0};
  tbb::task_arena arena(4);
  arena.execute([&] {
    tbb::parallel_for(
        0, 400,
        [&](int) {
          ++depth;
          if (depth > deepest) deepest = depth;
          tbb_executor{}.parallel_for(4, [](index_t index) {
            // The later ones last longer: whoever does the first is soon waiting for the others.
            const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200 * index);
            while (std::chrono::steady_clock::now() < end) {
            }
          });
          --depth;
        },
        tbb::simple_partitioner{});
  });
  EXPECT_EQ(deepest, 1);
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
