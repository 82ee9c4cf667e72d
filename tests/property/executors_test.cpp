// attention on executors of the caller's: the same bits whoever computes, wherever the call comes from.
#include "support/executors.hpp"

#include <fenv.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "heed/heed.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Executors, OfTheUserDoTheSameAsThePool) {
  serial_executor serial;
  executor_battery(serial).run();
  reversed_executor reversed;
  executor_battery(reversed).run();
  thread_per_task threads;
  executor_battery(threads).run();
}

TEST(Executors, AreAnOptionLikeAnyOther) {
  static_assert(std::is_aggregate_v<attention_options> && std::is_trivially_copyable_v<attention_options>);
  const attention_inputs in;
  thread_per_task pool;
  tensor<float, 4> out({2, 4, 150, 64});
  const attention_options options{.scale = 0.125, .anchor = top_left, .precise = true, .threads = 2, .executor = pool};
  attention(in.q, in.k, in.v, out, options);
  EXPECT_EQ(pool.calls, 1);
  attention(in.q, in.k, in.v, out, causal{}, {.threads = 2, .executor = pool});
  (void)attention(in.q, in.k, in.v, {.executor = pool});
  (void)attention_with_weights(in.q, in.k, in.v, causal{}, {.executor = pool});
  EXPECT_EQ(pool.calls, 4);
  EXPECT_EQ(validate(in.q, in.k, in.v, out, {.executor = pool}), errc::ok);
  EXPECT_EQ(validate(in.q, in.k, in.v, out, {.threads = -1, .executor = pool}), errc::negative_threads);
  EXPECT_EQ(pool.calls, 4);
}

TEST(Executors, GetAsManyTasksAsThreadsSays) {
  const attention_inputs in;
  const auto tasks = [&](int threads, int concurrency) {
    thread_per_task pool{concurrency};
    (void)attend(in.q, in.k, in.v, causal{}, {.threads = threads, .executor = pool});
    return pool.most_tasks.load();
  };
  EXPECT_EQ(tasks(0, 3), 3);
  EXPECT_EQ(tasks(0, 2), 2);
  EXPECT_EQ(tasks(0, 1), 0);
  EXPECT_EQ(tasks(1, 3), 0) << "one thread is the caller's";
  EXPECT_EQ(tasks(2, 7), 2);
  EXPECT_EQ(tasks(5, 2), 5) << "the number of threads is the caller's to say";
  // Little work is not given away.
  const auto little = pattern<float>(31, 1, {1, 1, 8, 8});
  thread_per_task pool;
  (void)attend(little, little, little, causal{}, {.threads = 4, .executor = pool});
  EXPECT_EQ(pool.calls, 0);
}

TEST(Executors, AreNamedByExplain) {
  const attention_inputs in;
  thread_per_task pool;
  const auto says = [&](attention_options const& options) {
    const std::string text = explain(in.q, in.k, in.v, options);
    const auto begin = text.find("\nthreads: ") + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(says({.executor = pool}), "threads: 3 (executor)");
  EXPECT_EQ(says({.threads = 2, .executor = pool}), "threads: 2 (executor)");
  EXPECT_EQ(says({.threads = 1, .executor = pool}), "threads: 1");
  EXPECT_EQ(says({.threads = 2}), "threads: 2");
  EXPECT_EQ(pool.calls, 0);
}

/// Asks attention, on the same executor, before it answers; hides nothing.
struct asking_mask {
  thread_per_task* pool;
  attention_inputs const* in;
  tensor<float, 4> const* expected;
  std::atomic<int>*asked, *wrong;

  [[nodiscard]] cover covers(block const& area) const {
    if (area.query_begin == 0 && area.key_begin == 0) {
      ++*asked;
      const auto found = attend(in->q, in->k, in->v, causal{}, {.threads = 3, .executor = *pool});
      if (!same_bits(*expected, found.out)) ++*wrong;
    }
    return cover::partial;
  }
  [[nodiscard]] bool allows(position const&) const { return true; }
};

TEST(Executors, ACallInsideARuleStaysOnItsThread) {
  const attention_inputs in;
  const auto inner = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
  const auto outer = attend(in.q, in.k, in.v, no_mask{}, {.threads = 1});
  thread_per_task pool;
  std::atomic<int> asked{0}, wrong{0};
  const asking_mask mask{&pool, &in, &inner.out, &asked, &wrong};
  const auto found = attend(in.q, in.k, in.v, mask, {.threads = 3, .executor = pool});
  EXPECT_TRUE(same_bits(outer.out, found.out));
  EXPECT_GE(asked, 8) << "each head asks for its first block";
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.calls, 1) << "the calls inside were the executor's, too";
}

/// Notes the rounding mode and, where there is one, the flush-to-zero bit that its code finds, also in new threads.
struct watching_executor {
  std::vector<int> modes{};
  std::vector<bool> flushes{};

  void look() {
    modes.push_back(fegetround());
    volatile double least = 0x1p-1022;
    flushes.push_back(least / 2 == 0);
  }
  int concurrency() {
    look();
    return 2;
  }
  void parallel_for(index_t count, parallel_body body) {
    look();
    for (index_t i = 0; i < count; ++i) {
      std::thread([&] {
        look();
        body(i);
        look();
      }).join();
    }
    look();
  }
};

TEST(Executors, RunInTheCallersEnvironmentNotTheKernels) {
  const attention_inputs in;
  const auto expected = attend(in.q, in.k, in.v, causal{});
  fenv_t saved;
  fegetenv(&saved);
  for (int mode : {FE_TONEAREST, FE_UPWARD}) {
    watching_executor pool;
    fesetround(mode);
    const auto found = attend(in.q, in.k, in.v, causal{}, {.executor = pool});
    const auto both = attention_with_weights(in.q, in.k, in.v, causal{}, {.executor = pool});
    (void)explain(in.q, in.k, in.v, {.executor = pool});
    EXPECT_EQ(fegetround(), mode);
    fesetenv(&saved);
    EXPECT_EQ(pool.modes, std::vector<int>(15, mode));
    EXPECT_EQ(pool.flushes, std::vector<bool>(15, false));
    EXPECT_TRUE(same_bits(expected.out, found.out));
    EXPECT_TRUE(same_bits(expected.out, both.out));
  }
}

#if HEED_EXCEPTIONS
struct lazy_executor {
  static void parallel_for(index_t, parallel_body const&) {}
};

TEST(Executors, ThatAreBrokenAreReported) {
  const attention_inputs in;
  lazy_executor lazy;
  try {
    (void)attend(in.q, in.k, in.v, causal{}, {.threads = 2, .executor = lazy});
    FAIL() << "an executor that runs nothing was believed";
  } catch (error const& broken) {
    EXPECT_EQ(broken.code(), errc::broken_executor);
    EXPECT_NE(std::string(broken.what()).find("0 of 2 calls"), std::string::npos) << broken.what();
  }
  EXPECT_EQ(attend(in.q, in.k, in.v, causal{}, {.threads = 1, .executor = lazy}).out.extent(2), 150);
}
#endif

}  // namespace
