// Calls from many threads, from threads with small stacks, in forked children and at exit.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "heed/heed.hpp"
#include "support/cases.hpp"
#include "support/executors.hpp"
#include "support/sanitizers.hpp"
#include "support/small_stack.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class T>
attended<T> some_call(index_t heads, index_t rows, index_t keys, index_t dim, int threads) {
  const auto q = pattern<T>(31, 1, {1, heads, rows, dim}, 2), k = pattern<T>(5, 20, {1, heads, keys, dim}, 2),
             v = pattern<T>(7, 30, {1, heads, keys, dim});
  return attend(q, k, v, causal{}, {.threads = threads});
}

std::string line_of(std::string const& text, std::string const& name) {
  const auto begin = text.find("\n" + name + ": ");
  if (begin == std::string::npos) return "no line " + name + " in: " + text;
  const auto value = begin + name.size() + 3;
  return text.substr(value, text.find('\n', value) - value);
}

TEST(Threads, K4_sixteen_callers_at_once_get_their_serial_results) {
  const auto calls = HEED_TEST_TSAN || HEED_TEST_UNOPTIMISED ? 20 : 150;
  std::atomic<int> wrong{0};
  const auto work = [&]<class T>(T, index_t rows, index_t keys, index_t dim) {
    const auto expected = some_call<T>(2, rows, keys, dim, 1);
    for (int turn = 0; turn < calls; ++turn) {
      const auto found = some_call<T>(2, rows, keys, dim, turn % 4);
      if (!same_bits(expected.out, found.out) || !same_bits(expected.lse, found.lse)) ++wrong;
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&, i] {
      const index_t rows = 1 + 37 * (i % 5), keys = 20 + 31 * i, dim = 8 + 5 * i;
      switch (i % 4) {
        case 0: return work(float{}, rows, keys, dim);
        case 1: return work(half{}, rows, keys, dim);
        case 2: return work(bfloat16{}, rows, keys, dim);
        default: return work(double{}, rows, keys, dim);
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

// One head: the threads share its keys, and add to the gradient of each query in the order of the keys.
TEST(Threads, OneHeadBackward) {
  const auto q = pattern<float>(31, 1, {1, 1, 500, 32}, 2), k = pattern<float>(5, 20, {1, 1, 900, 32}, 2);
  tensor<float, 4> out({1, 1, 500, 32}), expected({1, 1, 500, 32}), dq({1, 1, 500, 32}), dk({1, 1, 900, 32});
  tensor<float, 3> lse({1, 1, 500});
  attention(q, k, k, into(out).lse(lse), causal{});
  const auto run = [&](tensor<float, 4>& to, int threads) {
    attention_backward(q, k, k, saved(out, lse), q, gradients(to, dk, nullptr), causal{}, {.threads = threads});
    return dk;
  };
  const auto expected_dk = run(expected, 1);
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_TRUE(same_bits(expected_dk, run(dq, 2 + turn)));
    EXPECT_TRUE(same_bits(expected, dq));
  }
}

/// Ends the program if it hangs.
struct within_two_minutes {
  within_two_minutes() { alarm(120); }
  ~within_two_minutes() { alarm(0); }
  within_two_minutes(within_two_minutes const&) = delete;
  within_two_minutes& operator=(within_two_minutes const&) = delete;
};

// A chunk of keys waits for those before it. An executor need not run its tasks side by side, nor the first one first.
TEST(Threads, OneHeadBackwardByTasksOneAfterAnother) {
  const within_two_minutes limit;
  for_each_type([]<class T>(T) {
    const auto q = pattern<T>(31, 1, {1, 1, 300, 32}, 2), k = pattern<T>(5, 20, {1, 1, 2000, 32}, 2);
    const auto saved_once = attend(q, k, k, causal{}, {.threads = 1});
    tensor<T, 4> dq({1, 1, 300, 32}), dk({1, 1, 2000, 32}), dv({1, 1, 2000, 32});
    const auto run = [&](attention_options const& options) {
      attention_backward(q, k, k, saved(saved_once.out, saved_once.lse), q, gradients(dq, dk, dv), causal{}, options);
      return std::vector<tensor<T, 4>>{dq, dk, dv};
    };
    const auto expected = run({.threads = 1});
    const auto check = [&](auto& executor) {
      for (const int threads : {2, 3, 7}) {
        const attention_options options{.threads = threads, .executor = executor};
        const std::string told =
            explain(q, k, k, saved(saved_once.out, saved_once.lse), q, gradients(dq, dk, dv), causal{}, options);
        EXPECT_EQ(line_of(told, "threads"), std::to_string(threads) + " (executor)");
        EXPECT_GE(std::stoi(line_of(told, "splits")), 2 * threads) << told;
        const auto found = run(options);
        for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same_bits(expected[i], found[i])) << threads;
      }
    };
    serial_executor serial;
    check(serial);
    reversed_executor reversed;
    check(reversed);
    thread_per_task apart;
    check(apart);
  });
}

TEST(Threads, ManyShortLivedThreads) {
  const auto expected = some_call<float>(2, 50, 60, 32, 1);
  for (int turn = 0; turn < 50; ++turn) {
    std::thread([&] { EXPECT_TRUE(same_bits(expected.out, some_call<float>(2, 50, 60, 32, 2).out)); }).join();
  }
}

TEST(Threads, J8_a_stack_of_128_KiB_is_enough) {
#if HEED_TEST_ASAN || HEED_TEST_TSAN
  GTEST_SKIP() << "a sanitizer's frames are not those of the library";
#endif
  const auto check = [](auto element, index_t rows, index_t keys, index_t dim) {
    using T = decltype(element);
    const auto q = pattern<T>(31, 1, {1, 1, rows, dim}), k = pattern<T>(5, 20, {1, 1, keys, dim});
    tensor<T, 4> out({1, 1, rows, dim}), weights({1, 1, rows, keys});
    tensor<bool, 2> keep({rows, keys});
    for (index_t i = 0; i < keep.size(); ++i) keep.data()[i] = i % 3 != 0;
    on_a_small_stack(
        [&] { attention(q, k, k, into(out).weights(weights), causal{} & keep_mask(keep), {.threads = 1}); });
    EXPECT_NE(static_cast<double>(out(0, 0, rows - 1, 0)), 0);
    on_a_small_stack([&] { attention(q, k, k, out, {.threads = 2}); });
    on_a_small_stack([&] { EXPECT_FALSE(explain(q, k, k, out, causal{}).empty()); });
  };
  check(double{}, 300, 4096, 512);
  check(double{}, 4096, 100, 512);
  check(float{}, 500, 600, 2000);
  check(half{}, 500, 600, 512);
  check(bfloat16{}, 3, 3, 20000);
}

/// The exit status of a child that runs `body`; a child that hangs is killed and gives -1.
template <class Body>
int status_of_child(Body const& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    body();
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Threads, AForkedChildHasAPoolOfItsOwn) {
#if HEED_TEST_TSAN
  GTEST_SKIP() << "the thread sanitizer refuses threads after a fork";
#endif
  const auto expected = some_call<float>(4, 300, 300, 64, 2);  // the pool is running now
  const auto in_child = [&] { _exit(same_bits(expected.out, some_call<float>(4, 300, 300, 64, 2).out) ? 0 : 2); };
  for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(status_of_child(in_child), 0);
  EXPECT_TRUE(same_bits(expected.out, some_call<float>(4, 300, 300, 64, 2).out));  // and the parent's still works
  EXPECT_EQ(status_of_child([&] { _exit(status_of_child(in_child)); }), 0);        // a child of a child
  // A child whose first calls come from several threads at once.
  EXPECT_EQ(
      status_of_child([&] {
        std::atomic<int> wrong{0};
        std::vector<std::thread> callers;
        for (int i = 0; i < 4; ++i) {
          callers.emplace_back([&] { wrong += !same_bits(expected.out, some_call<float>(4, 300, 300, 64, 2).out); });
        }
        for (auto& caller : callers) caller.join();
        _exit(wrong == 0 ? 0 : 2);
      }),
      0);
}

TEST(Threads, AForkWhileThePoolWorks) {
#if HEED_TEST_TSAN
  GTEST_SKIP() << "the thread sanitizer refuses threads after a fork";
#endif
  const auto expected = some_call<float>(4, 200, 200, 64, 2);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) (void)some_call<float>(4, 200, 200, 64, 3);
  });
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(status_of_child([&] {
                // Memory for the outputs was prepared by the parent: malloc is not what is tested.
                _exit(same_bits(expected.out, some_call<float>(4, 200, 200, 64, 2).out) ? 0 : 2);
              }),
              0)
        << turn;
  }
  stop = true;
  busy.join();
}

TEST(Threads, CallsAtExitStillWork) {
#if HEED_TEST_TSAN
  GTEST_SKIP() << "the thread sanitizer refuses threads after a fork";
#endif
  static const auto expected = some_call<float>(4, 300, 300, 64, 1);
  EXPECT_EQ(status_of_child([] {
              // Registered before the first call of this child, so it runs after whatever that call registered.
              std::atexit([] { _exit(same_bits(expected.out, some_call<float>(4, 300, 300, 64, 2).out) ? 7 : 2); });
              (void)some_call<float>(4, 300, 300, 64, 2);
              std::exit(1);
            }),
            7);
}

TEST(Threads, TheAffinityMaskIsRespected) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const tensor<float, 4> big({4, 8, 2000, 64});
  tensor<float, 4> out({4, 8, 2000, 64});
  const auto threads = [&](int wanted) {
    return line_of(explain(big, big, big, out, no_mask{}, {.threads = wanted}), "threads");
  };
  EXPECT_EQ(threads(0), std::to_string(CPU_COUNT(&before)));
  EXPECT_EQ(threads(1), "1");
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(threads(0), "1");
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
