// OpenMP's threads as an executor.
#include "heed/interop/openmp.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "support/executors.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(OpenMP, IsAnExecutor) {
  openmp_executor team;
  for (int threads : {1, 2, 4}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(team.concurrency(), threads);
    executor_battery(team).run();
  }
}

TEST(OpenMP, UsesItsThreads) {
  omp_set_num_threads(3);
  std::atomic<int> arrived{0}, met{0};
  openmp_executor{}.parallel_for(3, [&](index_t) { met += meet(arrived, 3) ? 1 : 0; });
  EXPECT_EQ(met, 3) << "three tasks on three threads at the same time";
}

TEST(OpenMP, ACallInsideAParallelRegionStaysOnItsThread) {
  omp_set_num_threads(4);
  const attention_inputs in;
  const auto expected = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
  openmp_executor team;
  std::atomic<int> right{0}, elsewhere{0};
#pragma omp parallel for
  for (int call = 0; call < 8; ++call) {
    const int outer = omp_get_thread_num();
    EXPECT_EQ(team.concurrency(), 1);
    team.parallel_for(4, [&](index_t) { elsewhere += omp_get_ancestor_thread_num(1) == outer ? 0 : 1; });
    right += same_bits(expected.out, attend(in.q, in.k, in.v, causal{}, {.executor = team}).out) ? 1 : 0;
  }
  EXPECT_EQ(right, 8);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
