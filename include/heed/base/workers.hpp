// parallel_for on the threads that a call asks for: the executor of its options, or the pool.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

#include "heed/base/executor.hpp"
#include "heed/base/fp_environment.hpp"
#include "heed/base/report.hpp"
#include "heed/base/thread_pool.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Who computes: at most `threads` threads, of the executor where one is given. `environment` is that of the user, in
/// which foreign code runs: threads that an executor starts on this occasion would otherwise inherit the kernels' one
/// for life.
struct workers {
  executor_ref executor{};
  int threads = 1;
  fp_state environment{};

  /// How many threads there would be for as much work as one likes.
  [[nodiscard]] int available() const {
    if (!executor.given()) return available_processors();
    if (inside_parallel_for) return 1;
    const fp_environment foreign(environment);
    const int counted = executor.concurrency();
    return counted > 0 ? counted : available_processors();
  }
};

/// A job whose tasks an executor runs. Each takes items until none is left.
struct executor_job {
  parallel_job job;
  index_t started;
  index_t finished;
};

inline void run_executor_task(void const* context, index_t task) {
  executor_job& shared = *static_cast<executor_job*>(const_cast<void*>(context));
  __atomic_fetch_add(&shared.started, index_t{1}, __ATOMIC_ACQ_REL);
  take_items(shared.job, magnitude(task) % shared.job.hands);  // whatever number an executor gives to its tasks
  __atomic_fetch_add(&shared.finished, index_t{1}, __ATOMIC_ACQ_REL);
}

/// The job lies on this stack: no way out of the scope, by return or by exception, while a task runs.
class executor_wait {
 public:
  explicit executor_wait(executor_job const& shared) noexcept : shared_(shared) {}
  ~executor_wait() {
    while (finished() != started()) sched_yield();
  }
  executor_wait(executor_wait const&) = delete;
  executor_wait& operator=(executor_wait const&) = delete;

  /// Tasks of an executor that returned too early may yet begin: some time to do so, before the job is gone.
  [[nodiscard]] index_t started_in_the_end(index_t tasks) const noexcept {
    for (int turn = 0; turn < 200 && started() < tasks; ++turn) usleep(1000);
    return started();
  }
  [[nodiscard]] index_t started() const noexcept { return __atomic_load_n(&shared_.started, __ATOMIC_ACQUIRE); }
  [[nodiscard]] index_t finished() const noexcept { return __atomic_load_n(&shared_.finished, __ATOMIC_ACQUIRE); }

 private:
  executor_job const& shared_;
};

/// Runs the job as `tasks` tasks of the executor, and holds it to its word.
inline void run_on_executor(parallel_job const& job, index_t tasks, workers const& who) {
  executor_job shared{job, 0, 0};
  const executor_wait wait(shared);
  {
    const fp_environment foreign(who.environment);
    who.executor.parallel_for(tasks, parallel_body(run_executor_task, &shared));
  }
  const index_t finished = wait.finished();
  if (finished == tasks) return;
  const index_t started = wait.started_in_the_end(tasks);
  std::string text;
  report broken("heed", &text);
  (void)broken.fail(
      errc::broken_executor,
      "the executor's parallel_for returned when %lld of %lld calls of its body had returned (%lld began); "
      "it must call body(i) once for each i in [0, count) and return when all have returned",
      static_cast<long long>(finished), static_cast<long long>(tasks), static_cast<long long>(started));
  raise(broken.code(), text);
}

/// Runs `body(item)` for every item in [0, count) on this thread. Calls that a body makes stay on it, too.
inline void run_alone(index_t count, function_ref<void(index_t)> body) {
  struct inside {
    bool before = std::exchange(inside_parallel_for, true);
    ~inside() { inside_parallel_for = before; }
  };
  const inside scope;
  for (index_t item = 0; item < count; ++item) body(item);
}

/// Runs `body(item)` for every item in [0, count) on at most `who.threads` threads and returns when all are done. A
/// call inside a call runs on its own thread and does not ask the executor again. The first exception of a body comes
/// back to the caller, one of the executor's own passes through.
inline void parallel_for(index_t count, workers const& who, function_ref<void(index_t)> body,
                         dealing deal = dealing::by_thread) {
  const index_t tasks = lesser(who.threads, count);
  if (tasks <= 1 || inside_parallel_for) return run_alone(count, body);
  if (!who.executor.given()) return parallel_for(count, who.threads, deal, body);
  std::exception_ptr failure;
  run_on_executor({body, count, hands_for(static_cast<int>(tasks), deal), &failure}, tasks, who);
#if HEED_EXCEPTIONS
  if (failure != nullptr) std::rethrow_exception(failure);
#endif
}

}  // namespace HEED_ABI
}  // namespace heed::detail
