// Executors as a user might write them, and what every executor has to do for attention.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "heed/heed.hpp"
#include "support/cases.hpp"

namespace heed::test {

/// Returns once `count` threads have called it on the same counter: whether they were there at the same time.
inline bool meet(std::atomic<int>& arrived, int count) {
  ++arrived;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (arrived < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return arrived >= count;
}

/// One after the other, on the caller's thread.
struct serial_executor {
  template <class Body>
  void parallel_for(index_t count, Body const& body) {
    for (index_t i = 0; i < count; ++i) body(i);
  }
};

struct reversed_executor {
  static void parallel_for(index_t count, std::function<void(index_t)> const& body) {
    while (count > 0) body(--count);
  }
};

/// A thread for each task; counts what it was asked to do.
struct thread_per_task {
  int threads = 3;
  std::atomic<int> calls{0};
  std::atomic<index_t> most_tasks{0};

  [[nodiscard]] int concurrency() const { return threads; }
  void parallel_for(index_t count, parallel_body body) {
    ++calls;
    index_t most = most_tasks;
    while (most < count && !most_tasks.compare_exchange_weak(most, count)) {
    }
    std::vector<std::thread> workers;
    for (index_t i = 0; i < count; ++i) workers.emplace_back([=] { body(i); });
    for (std::thread& worker : workers) worker.join();
  }
};

/// Big enough for 7 threads: flops_per_thread counts.
struct attention_inputs {
  tensor<float, 4> q = pattern<float>(31, 1, {2, 4, 150, 64}, 3), k = pattern<float>(5, 20, {2, 2, 170, 64}, 3),
                   v = pattern<float>(7, 30, {2, 2, 170, 64});
};

/// Calls attention on the executor in every way that may go wrong; needs nothing of it but what executor_type says.
template <class Executor>
class executor_battery {
 public:
  explicit executor_battery(Executor& executor) : executor_(executor) {}

  void run() const {
    takes_each_index_once();
    gives_the_same_bits();
    may_be_called_from_many_threads();
    may_be_called_inside_its_own_tasks();
#if HEED_EXCEPTIONS
    brings_exceptions_back();
#endif
  }

  void takes_each_index_once() const {
    for (index_t count : {0, 1, 2, 5, 64}) {
      std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
      const auto take = [&](index_t index) { ++taken.at(static_cast<std::size_t>(index)); };
      const parallel_body body(
          [](void const* context, index_t index) { (*static_cast<decltype(&take)>(context))(index); }, &take);
      executor_ref(executor_).parallel_for(count, body);
      for (auto const& times : taken) EXPECT_EQ(times.load(), 1);
    }
  }

  void gives_the_same_bits() const {
    const auto check = [&](auto element, attention_inputs const& in, auto const& rule) {
      using T = decltype(element);
      const auto q = convert<T>(in.q), k = convert<T>(in.k), v = convert<T>(in.v);
      const auto expected = attend(q, k, v, rule, {.threads = 1});
      for (int threads : {0, 1, 2, 3, 7}) {
        const auto found = attend(q, k, v, rule, {.threads = threads, .executor = executor_});
        EXPECT_TRUE(same_bits(expected.out, found.out)) << threads << " threads";
        EXPECT_TRUE(same_bits(expected.lse, found.lse)) << threads << " threads";
      }
    };
    const attention_inputs in;
    attention_inputs tall{pattern<float>(31, 1, {1, 1, 900, 32}), pattern<float>(5, 20, {1, 1, 300, 32}),
                          pattern<float>(7, 30, {1, 1, 300, 80})};
    const std::vector<index_t> lengths_of_keys = {170, 3};
    check(float{}, in, no_mask{});
    check(float{}, in, causal{});
    check(double{}, tall, causal{});
    check(bfloat16{}, in, causal{} & lengths{.key = lengths_of_keys});
    check(half{}, tall, no_mask{});
  }

  void may_be_called_from_many_threads() const {
    const attention_inputs in;
    const auto expected = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 6; ++caller) {
      callers.emplace_back([&, caller] {
        for (int turn = 0; turn < 5; ++turn) {
          const auto found =
              attend(in.q, in.k, in.v, causal{}, {.threads = (caller + turn) % 4, .executor = executor_});
          wrong += same_bits(expected.out, found.out) ? 0 : 1;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
  }

  /// As many outer tasks as would fill any pool of a few threads: each of them waits for its own inner ones.
  void may_be_called_inside_its_own_tasks() const {
    const attention_inputs in;
    const auto expected = attend(in.q, in.k, in.v, causal{}, {.threads = 1});
    std::atomic<int> right{0};
    const auto outer = [&](index_t) {
      const auto found = attend(in.q, in.k, in.v, causal{}, {.threads = 3, .executor = executor_});
      right += same_bits(expected.out, found.out) ? 1 : 0;
    };
    const parallel_body body([](void const* context, index_t i) { (*static_cast<decltype(&outer)>(context))(i); },
                             &outer);
    executor_ref(executor_).parallel_for(12, body);
    EXPECT_EQ(right, 12);
  }

#if HEED_EXCEPTIONS
  struct failing_mask {
    [[nodiscard]] cover covers(block const& area) const {
      if (area.batch == 1 && area.head == 2) throw std::string("from a mask");
      return cover::full;
    }
    [[nodiscard]] bool allows(position const&) const { return true; }
  };

  void brings_exceptions_back() const {
    const attention_inputs in;
    for (int threads : {1, 2, 7}) {
      EXPECT_THROW((void)attend(in.q, in.k, in.v, failing_mask{}, {.threads = threads, .executor = executor_}),
                   std::string);
    }
    gives_the_same_bits();  // and it is as good as before
  }
#endif

 private:
  template <class T>
  static tensor<T, 4> convert(tensor<float, 4> const& from) {
    tensor<T, 4> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)});
    for (index_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<T>(from.data()[i]);
    return to;
  }

  Executor& executor_;
};

}  // namespace heed::test
