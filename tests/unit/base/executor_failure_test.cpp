// What goes wrong inside an executor, or is wrong with it, reaches the caller.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heed/base/workers.hpp"

namespace {

using heed::index_t;
using heed::parallel_body;
using heed::detail::parallel_for;
using heed::detail::workers;

/// Calls the body for as many indices as `runs` says of each.
struct careless {
  std::vector<int> runs;

  void parallel_for(index_t count, parallel_body body) {
    for (index_t i = 0; i < count; ++i) {
      for (int run = 0; run < runs.at(static_cast<std::size_t>(i)); ++run) body(i);
    }
  }
};

std::string complaint(auto& executor, int threads, auto const& body) {
  try {
    parallel_for(20, workers{executor, threads}, body);
  } catch (heed::error const& broken) {
    EXPECT_EQ(broken.code(), heed::errc::broken_executor);
    return broken.what();
  }
  return "nothing";
}
std::string complaint(auto& executor, int threads) {
  return complaint(executor, threads, [](index_t) {});
}

TEST(BrokenExecutor, IsReported) {
  careless right{{1, 1, 1}}, skips_all{{0, 0, 0}}, skips_one{{1, 1, 0}}, repeats{{1, 2, 1}};
  EXPECT_EQ(complaint(right, 3), "nothing");
  EXPECT_NE(complaint(skips_all, 3).find("0 of 3 calls"), std::string::npos) << complaint(skips_all, 3);
  EXPECT_NE(complaint(skips_one, 3).find("2 of 3 calls"), std::string::npos);
  EXPECT_NE(complaint(repeats, 3).find("4 of 3 calls"), std::string::npos);
  EXPECT_NE(complaint(skips_one, 3).find("body(i) once for each i"), std::string::npos);
}

/// Returns while its tasks run, or before they have begun.
struct hasty {
  std::vector<std::thread> threads;
  std::chrono::milliseconds delay{0};

  void parallel_for(index_t count, parallel_body body) {
    for (index_t i = 0; i < count; ++i) {
      threads.emplace_back([=, this] {
        std::this_thread::sleep_for(delay);
        body(i);
      });
    }
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

TEST(BrokenExecutor, IsWaitedForBeforeItIsReported) {
  for (int delay : {0, 20}) {
    hasty executor{{}, std::chrono::milliseconds(delay)};
    std::atomic<int> items{0};
    const std::string said = complaint(executor, 4, [&](index_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++items;
    });
    const int then = items;
    executor.join();
    EXPECT_NE(said.find("of 4 calls"), std::string::npos) << said;
    EXPECT_EQ(then, 20) << "the call was left while tasks ran";
    EXPECT_EQ(items, 20);
  }
}

struct throwing {
  bool first = false;

  void parallel_for(index_t count, parallel_body body) const {
    for (index_t i = 0; i < count; ++i) {
      if (i == (first ? 0 : 1)) throw std::length_error("no thread to be had");
      body(i);
    }
  }
};

TEST(BrokenExecutor, ItsOwnExceptionPassesThrough) {
  for (bool first : {true, false}) {
    throwing executor{first};
    EXPECT_THROW(parallel_for(20, workers{executor, 3}, [](index_t) {}), std::length_error);
  }
}

TEST(ParallelForOnAnExecutor, AnExceptionOfTheBodyComesBack) {
  careless serial{std::vector<int>(7, 1)};
  for (int threads : {2, 7}) {
    try {
      parallel_for(100, workers{serial, threads}, [](index_t item) {
        if (item == 17) throw std::runtime_error("seventeen");
      });
      FAIL() << "nothing was thrown";
    } catch (std::runtime_error const& error) {
      EXPECT_STREQ(error.what(), "seventeen");
    }
  }
}

}  // namespace
