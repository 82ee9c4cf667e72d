// How items are dealt to threads: each its own and then what others left, or one after another in their order; on the
// pool and on executors.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "heed/base/workers.hpp"
#include "support/executors.hpp"

namespace {

using heed::index_t;
using heed::detail::dealing;
using heed::detail::parallel_for;
using heed::detail::workers;
using heed::test::reversed_executor;
using heed::test::serial_executor;
using heed::test::thread_per_task;

constexpr dealing both[] = {dealing::by_thread, dealing::in_order};
/// More than there are hands among them.
constexpr int thread_counts[] = {1, 2, 3, 7, 16, 17, 40};

/// Calls `check` with workers of every kind, of so many threads.
void with_each_kind(int threads, std::function<void(workers const&)> const& check) {
  serial_executor serial;
  reversed_executor reversed;
  thread_per_task apart;
  for (heed::executor_ref const executor :
       {heed::executor_ref{}, heed::executor_ref{serial}, heed::executor_ref{reversed}, heed::executor_ref{apart}}) {
    check({executor, threads});
  }
}

/// Whether it came true in time. Once one has not, nothing is waited for any more.
class patience {
 public:
  template <class Condition>
  bool wait(Condition const& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (gone_ || std::chrono::steady_clock::now() > end) gone_ = true;
      if (gone_) return false;
      std::this_thread::yield();
    }
    return true;
  }
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  std::atomic<bool> gone_{false};
};

TEST(Dealing, GivesEachItemOnce) {
  for (const int threads : thread_counts) {
    with_each_kind(threads, [&](workers const& who) {
      for (const dealing deal : both) {
        for (const index_t count : {0, 1, 2, 3, 15, 16, 17, 33, 500}) {
          std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
          parallel_for(
              count, who,
              [&](index_t item) {
                if (item < 0 || item >= count) {
                  ADD_FAILURE() << "item " << item << " of " << count;
                } else {
                  ++taken[static_cast<std::size_t>(item)];
                }
              },
              deal);
          EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](auto const& times) { return times == 1; }))
              << count << " items for " << threads << " threads";
        }
      }
    });
  }
}

TEST(Dealing, OnNoThreadsIsOnThisOne) {
  for (const dealing deal : both) {
    int runs = 0;
    heed::detail::parallel_for(3, 0, deal, [&](index_t) { ++runs; });
    EXPECT_EQ(runs, 3);
  }
}

TEST(Dealing, InsideAnItemStaysOnItsThread) {
  for (const int threads : {2, 20}) {
    with_each_kind(threads, [&](workers const& who) {
      for (const dealing deal : both) {
        std::atomic<int> inner{0}, elsewhere{0};
        const auto item = [&](index_t) {
          const auto here = std::this_thread::get_id();
          std::vector<index_t> order;
          parallel_for(
              40, who,
              [&](index_t one) {
                elsewhere += std::this_thread::get_id() != here;
                order.push_back(one);
              },
              deal);
          inner += static_cast<int>(order.size());
          EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
        };
        parallel_for(24, who, item, deal);
        EXPECT_EQ(inner, 24 * 40);
        EXPECT_EQ(elsewhere, 0);
      }
    });
  }
}

template <class Executor>
std::vector<index_t> order_of(index_t count, int threads, dealing deal) {
  Executor executor;
  std::vector<index_t> order;
  parallel_for(
      count, workers{executor, threads}, [&](index_t item) { order.push_back(item); }, deal);
  return order;
}

// One task after the other: each finds what those before it left, which is nothing, so that the first shows the order.
TEST(Dealing, ByThreadIsEverySoManythItemThenThoseOfTheNext) {
  EXPECT_EQ(order_of<serial_executor>(8, 3, dealing::by_thread), (std::vector<index_t>{0, 3, 6, 1, 4, 7, 2, 5}));
  EXPECT_EQ(order_of<reversed_executor>(8, 3, dealing::by_thread), (std::vector<index_t>{2, 5, 0, 3, 6, 1, 4, 7}));
  EXPECT_EQ(order_of<serial_executor>(2, 3, dealing::by_thread), (std::vector<index_t>{0, 1}));
}

TEST(Dealing, InOrderIsOneAfterAnother) {
  const std::vector<index_t> rising{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(order_of<serial_executor>(8, 3, dealing::in_order), rising);
  EXPECT_EQ(order_of<reversed_executor>(8, 3, dealing::in_order), rising);
}

// A thread that computes the same items in call after call finds them near.
TEST(Dealing, ByThreadGivesAThreadItsOwnItemsFirst) {
  for (const int threads : {2, 3, 7}) {
    thread_per_task executor;
    const index_t count = 5 * threads;
    std::vector<std::thread::id> taken_by(static_cast<std::size_t>(count));
    std::atomic<index_t> begun{0};
    patience all;
    // Nobody goes on before all have taken as many: there is nothing to be left to others.
    parallel_for(count, workers{executor, threads}, [&](index_t item) {
      taken_by[static_cast<std::size_t>(item)] = std::this_thread::get_id();
      ++begun;
      all.wait([&] { return begun >= (item / threads + 1) * threads; });
    });
    EXPECT_FALSE(all.gone());
    for (std::size_t item = static_cast<std::size_t>(threads); item < taken_by.size(); ++item) {
      EXPECT_EQ(taken_by[item], taken_by[item - static_cast<std::size_t>(threads)]) << item << " of " << count;
    }
  }
}

// One item ends when all the others have: they are not left to its thread.
TEST(Dealing, WhatAStuckThreadHasNotBegunIsTakenByOthers) {
  thread_per_task apart;
  for (const int threads : {2, 3, 16, 20}) {
    for (const heed::executor_ref executor : {heed::executor_ref{}, heed::executor_ref{apart}}) {
      for (const dealing deal : both) {
        for (const index_t count : {index_t{threads}, index_t{100}}) {
          for (const index_t stuck : {index_t{0}, index_t{1}, count - 1}) {
            std::atomic<index_t> ended{0};
            patience others;
            parallel_for(
                count, workers{executor, threads},
                [&](index_t item) {
                  if (item == stuck) others.wait([&] { return ended == count - 1; });
                  ++ended;
                },
                deal);
            ASSERT_FALSE(others.gone()) << "item " << stuck << " of " << count << " on " << threads << " threads";
            EXPECT_EQ(ended, count);
          }
        }
      }
    }
  }
}

// The backward pass relies on it.
TEST(Dealing, InOrderAnItemMayWaitForAllBeforeIt) {
  for (const int threads : thread_counts) {
    with_each_kind(threads, [&](workers const& who) {
      if (testing::Test::HasFailure()) return;
      for (const index_t count : {2, 5, 200}) {
        std::vector<std::atomic<bool>> begun(static_cast<std::size_t>(count));
        std::atomic<index_t> ended{0};
        patience turn;
        parallel_for(
            count, who,
            [&](index_t item) {
              const auto place = static_cast<std::size_t>(item);
              begun[place] = true;
              turn.wait([&] { return place == 0 || begun[place - 1]; });
              if (item % 3 == 0) std::this_thread::yield();
              turn.wait([&] { return ended >= item; });
              EXPECT_TRUE(turn.gone() || ended == item);
              ++ended;
            },
            dealing::in_order);
        ASSERT_FALSE(turn.gone()) << count << " items on " << threads << " threads";
      }
    });
  }
}

#if HEED_EXCEPTIONS
struct failure {
  index_t item;
};

// Whichever thread throws: the items of all the others are not begun any more, but for those that begin just then.
TEST(Dealing, AfterAnExceptionNoItemBeginsForLong) {
  constexpr index_t count = 4000;
  for (const int threads : {1, 2, 4, 20}) {
    with_each_kind(threads, [&](workers const& who) {
      for (const dealing deal : both) {
        for (const index_t failing : {0, 17, 18}) {
          std::atomic<bool> has_failed{false};
          std::atomic<index_t> begun_after{0};
          try {
            parallel_for(
                count, who,
                [&](index_t item) {
                  if (item == failing) {
                    has_failed = true;
                    throw failure{item};
                  }
                  begun_after += has_failed;
                  if (has_failed) std::this_thread::sleep_for(std::chrono::microseconds(200));
                },
                deal);
            ADD_FAILURE() << "nothing was thrown on " << threads << " threads";
          } catch (failure const& thrown) {
            EXPECT_EQ(thrown.item, failing);
          }
          EXPECT_LT(begun_after, count / 8) << threads << " threads, item " << failing;
        }
      }
    });
  }
}

TEST(Dealing, TheFirstExceptionComesBack) {
  thread_per_task apart;
  for (const heed::executor_ref executor : {heed::executor_ref{}, heed::executor_ref{apart}}) {
    for (const dealing deal : both) {
      for (const index_t first : {0, 1}) {
        std::atomic<index_t> begun{0};
        std::atomic<bool> is_thrown{false};
        patience other;
        try {
          parallel_for(
              2, workers{executor, 2},
              [&](index_t item) {
                ++begun;
                other.wait([&] { return begun == 2; });
                if (item != first) {
                  other.wait([&] { return is_thrown.load(); });
                  std::this_thread::sleep_for(std::chrono::milliseconds(50));
                }
                is_thrown = true;
                throw failure{item};
              },
              deal);
          ADD_FAILURE() << "nothing was thrown";
        } catch (failure const& thrown) {
          EXPECT_EQ(thrown.item, first);
        }
        EXPECT_FALSE(other.gone());
      }
    }
  }
}
#endif

/// Numbers its tasks in its own way.
struct misnumbering {
  index_t first, step;

  void parallel_for(index_t count, heed::parallel_body body) const {
    for (index_t i = 0; i < count; ++i) body(first + i * step);
  }
};

TEST(Dealing, AnExecutorMayNumberItsTasksAsItLikes) {
  for (misnumbering executor : {misnumbering{0, 0}, {1, 1}, {-7, 1}, {INT64_MAX, 0}, {INT64_MIN, 1}}) {
    for (const dealing deal : both) {
      std::vector<index_t> taken;
      parallel_for(
          10, workers{executor, 4}, [&](index_t item) { taken.push_back(item); }, deal);
      std::sort(taken.begin(), taken.end());
      EXPECT_EQ(taken, (std::vector<index_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})) << executor.first;
    }
  }
}

}  // namespace
