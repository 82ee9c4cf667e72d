// oneTBB's threads as an executor: `heed::tbb_executor arena;`, then {.executor = arena}.
#pragma once

#if !__has_include(<oneapi/tbb/parallel_for.h>)
#error "heed/interop/tbb.hpp needs oneTBB 2021 or later: install it (Debian: libtbb-dev), and link with -ltbb."
#endif

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include "heed/base/executor.hpp"

namespace heed {
inline namespace HEED_ABI {

/// Runs tasks in an arena of oneTBB: the one that the calling thread is in, or one that is given (and must live on).
///
/// Threads: the slots of the arena. While it waits, the calling thread takes tasks of its own call only, never a task
///   of the program's that would find the caller's locks held. A cancelled group of tasks around the call does not
///   tear it: it runs to its end.
/// One serves all threads.
class tbb_executor {
 public:
  tbb_executor() = default;
  explicit tbb_executor(oneapi::tbb::task_arena& arena) noexcept : arena_(&arena) {}
  explicit tbb_executor(oneapi::tbb::task_arena&&) = delete;

  [[nodiscard]] int concurrency() const {
    return arena_ != nullptr ? arena_->max_concurrency() : oneapi::tbb::this_task_arena::max_concurrency();
  }

  template <class Body>
  void parallel_for(index_t count, Body const& body) const {
    const auto run = [&] {
      oneapi::tbb::this_task_arena::isolate([&] {
        oneapi::tbb::task_group_context apart(oneapi::tbb::task_group_context::isolated);
        oneapi::tbb::parallel_for(index_t{0}, count, body, oneapi::tbb::simple_partitioner{}, apart);
      });
    };
    if (arena_ != nullptr) {
      arena_->execute(run);
    } else {
      run();
    }
  }

 private:
  oneapi::tbb::task_arena* arena_ = nullptr;
};

}  // namespace HEED_ABI
}  // namespace heed
