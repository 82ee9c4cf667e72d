// parallel_for on a small pool of the process's own: started on first need, asleep between calls that are not close
// together, joined at exit.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <new>
#include <utility>

#include "heed/base/fp_environment.hpp"
#include "heed/base/function_ref.hpp"
#include "heed/base/index.hpp"

namespace heed::detail {

/// Who takes which item; it never shows in a result.
enum class dealing : unsigned char {
  by_thread,  // each thread every so manyth one, so that from call to call it finds them near; then what others left
  in_order    // the next one to whoever comes, so that an item may wait for those before it
};

/// `count` items for several threads.
struct parallel_job {
  static constexpr int max_hands = 16;  // more threads share them
  struct alignas(64) hand {
    index_t taken = 0;  // with an atomic add
  };

  function_ref<void(index_t)> body;
  index_t count;
  int hands;                    // to which the items are dealt in turn
  std::exception_ptr* failure;  // the first exception, under the pool's mutex
  hand items[max_hands] = {};
};

/// The one state of all translation units; constant-initialised, so that it is there before any constructor runs.
struct pool_state {
  static constexpr int max_workers = 255;
  HEED_INLINE constexpr pool_state() = default;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t work = PTHREAD_COND_INITIALIZER;
  pthread_cond_t done = PTHREAD_COND_INITIALIZER;
  pthread_t workers[max_workers] = {};
  int processors[max_workers] = {};  // where each worker was when it last ran out of work
  int worker_count = 0;
  int asleep = 0;         // workers that wait for a signal; the other idle ones look by themselves
  bool spins = false;     // idle workers look for the next job for a while: there is a processor for each
  cpu_set_t places = {};  // where the workers may run
  pid_t owner = 0;        // after a fork the child has no workers
  parallel_job* job = nullptr;
  unsigned long ticket = 0;  // counts jobs, so that a worker takes each at most once; read without the mutex
  int seats = 0;             // workers that may still join the job
  int active = 0;            // workers that have joined and not left; read without the mutex
  bool busy = false;         // a job is running; other callers work alone
  bool stopped = false;
};
inline constinit pool_state pool{};
inline constinit thread_local bool inside_parallel_for = false;

inline namespace HEED_ABI {

/// Processors that this thread may run on.
[[nodiscard]] inline int available_processors() noexcept {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) > 0) return CPU_COUNT(&mask);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

/// Looks for `done` for a tenth of a millisecond: longer than it takes to wake a thread, and than the gap between the
/// calls of a model's layers; too short to be missed by others.
template <class Done>
bool spin_until(Done const& done) noexcept {
  constexpr long patience = 100'000;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  const long start = now();
  do {
    for (int turn = 0; turn < 16; ++turn) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#else
      asm volatile("yield");
#endif
    }
  } while (now() - start < patience);
  return done();
}

/// The mutex is held for moments, which are not worth a sleep.
inline void lock_pool() noexcept {
  if (!spin_until([] { return pthread_mutex_trylock(&pool.mutex) == 0; })) pthread_mutex_lock(&pool.mutex);
}

[[nodiscard]] inline int hands_for(int threads, dealing deal) noexcept {
  if (deal == dealing::in_order || threads < 1) return 1;
  return threads < parallel_job::max_hands ? threads : parallel_job::max_hands;
}

/// Nothing is taken any more.
inline void end_early(parallel_job& job) noexcept {
  for (int hand = 0; hand < job.hands; ++hand) __atomic_store_n(&job.items[hand].taken, job.count, __ATOMIC_RELAXED);
}

/// The items of one hand, then those that are left of the others, in the floating-point environment of the kernels: a
/// functor of the caller's must leave it as it is.
inline void take_items(parallel_job& job, index_t first_hand) noexcept {
  const fp_environment environment;
  const bool was_inside = std::exchange(inside_parallel_for, true);
  for (index_t turn = 0; turn < job.hands; ++turn) {
    const index_t hand = (first_hand + turn) % job.hands;
    for (;;) {
      const index_t taken = __atomic_fetch_add(&job.items[hand].taken, index_t{1}, __ATOMIC_RELAXED);
      if (taken >= ceil_div(job.count - hand, job.hands)) break;
#if HEED_EXCEPTIONS
      try {
        job.body(hand + taken * job.hands);
      } catch (...) {
        end_early(job);
        lock_pool();
        if (*job.failure == nullptr) *job.failure = std::current_exception();
        pthread_mutex_unlock(&pool.mutex);
      }
#else
      job.body(hand + taken * job.hands);
#endif
    }
  }
  inside_parallel_for = was_inside;
}

inline void* pool_worker(void* number) noexcept {
  const std::intptr_t worker = reinterpret_cast<std::intptr_t>(number);
  int& processor = pool.processors[worker];
  unsigned long seen = 0;
  bool patient = false;  // has just worked
  lock_pool();
  while (!pool.stopped) {
    if (pool.job == nullptr || pool.seats == 0 || pool.ticket == seen) {
      processor = sched_getcpu();
      if (std::exchange(patient, false) && pool.spins) {
        const unsigned long last = pool.ticket;
        pthread_mutex_unlock(&pool.mutex);
        (void)spin_until([&] { return __atomic_load_n(&pool.ticket, __ATOMIC_RELAXED) != last; });
        lock_pool();
        continue;
      }
      ++pool.asleep;
      pthread_cond_wait(&pool.work, &pool.mutex);
      --pool.asleep;
      continue;
    }
    seen = pool.ticket;
    --pool.seats;
    __atomic_fetch_add(&pool.active, 1, __ATOMIC_RELAXED);
    parallel_job* const job = pool.job;
    pthread_mutex_unlock(&pool.mutex);
    take_items(*job, job->hands == 1 ? 0 : 1 + worker % (job->hands - 1));  // hand 0 is the caller's
    patient = true;
    lock_pool();
    if (__atomic_sub_fetch(&pool.active, 1, __ATOMIC_RELAXED) == 0) pthread_cond_signal(&pool.done);
  }
  pthread_mutex_unlock(&pool.mutex);
  return nullptr;
}

/// Joins the workers when the process ends; calls after that run on their own thread.
struct pool_joiner {
  ~pool_joiner() {
    if (pool.owner != getpid()) return;
    lock_pool();
    pool.stopped = true;
    __atomic_fetch_add(&pool.ticket, 1ul, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < pool.worker_count; ++i) pthread_join(pool.workers[i], nullptr);
    pool.worker_count = 0;
  }
};

/// In a child of fork, before it has threads: the workers stayed behind, and perhaps a mutex that nobody will unlock.
inline void forget_workers() noexcept {
  pool.~pool_state();
  new (&pool) pool_state{};
}

/// With the mutex held: as many workers as asked for, or as many as the system gives. They take no signals.
inline void start_workers(int wanted) noexcept {
  static const pool_joiner joiner;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_workers);
  (void)registered;
  pool.owner = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (pool.worker_count < wanted && pool.worker_count < pool_state::max_workers) {
    const std::intptr_t number = pool.worker_count;
    pool.processors[number] = -1;
    if (pthread_create(&pool.workers[number], nullptr, pool_worker, reinterpret_cast<void*>(number)) != 0) break;
    ++pool.worker_count;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// With the mutex held: the workers may run where the caller may. One that would wake up on the caller's own processor,
/// where the system may leave it waiting for milliseconds, is sent to another one.
inline void place_workers(int threads) noexcept {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int here = sched_getcpu();
  if (here < 0 || sched_getaffinity(0, sizeof mask, &mask) != 0) return;
  pool.spins = threads <= CPU_COUNT(&mask);
  const bool moved = !CPU_EQUAL(&mask, &pool.places);
  pool.places = mask;
  if (CPU_COUNT(&mask) > 1) CPU_CLR(static_cast<std::size_t>(here), &mask);
  for (int i = 0; i < pool.worker_count; ++i) {
    if (!moved && pool.processors[i] != here) continue;
    (void)pthread_setaffinity_np(pool.workers[i], sizeof mask, pool.processors[i] == here ? &mask : &pool.places);
    pool.processors[i] = -1;
  }
}

/// Takes the pool for one job, or says that the caller had better work alone.
[[nodiscard]] inline bool enter_pool(parallel_job& job, int threads) noexcept {
  lock_pool();
  const bool mine = !pool.busy && !pool.stopped;
  if (mine) {
    if (pool.worker_count < threads - 1) start_workers(threads - 1);
    place_workers(threads);
    pool.busy = true;
    pool.job = &job;
    __atomic_fetch_add(&pool.ticket, 1ul, __ATOMIC_RELAXED);
    pool.seats = threads - 1;
    const int awake = pool.worker_count - pool.asleep;
    for (int i = 1 + awake; i < threads; ++i) pthread_cond_signal(&pool.work);
  }
  pthread_mutex_unlock(&pool.mutex);
  return mine;
}

inline void leave_pool() noexcept {
  lock_pool();
  pool.seats = 0;  // whoever has not come by now is not waited for
  pool.job = nullptr;
  const bool spins = pool.spins;
  pthread_mutex_unlock(&pool.mutex);
  if (spins) (void)spin_until([] { return __atomic_load_n(&pool.active, __ATOMIC_RELAXED) == 0; });
  lock_pool();
  while (pool.active > 0) pthread_cond_wait(&pool.done, &pool.mutex);
  pool.busy = false;
  pthread_mutex_unlock(&pool.mutex);
}

/// Runs `body(item)` for every item in [0, count) on at most `threads` threads, this one among them, and returns when
/// all are done. A call inside a call, or while another thread uses the pool, runs on its own thread.
inline void parallel_for(index_t count, int threads, dealing deal, function_ref<void(index_t)> body) {
  if (threads > count) threads = static_cast<int>(count);
  if (threads > pool_state::max_workers) threads = pool_state::max_workers;
  std::exception_ptr failure;
  parallel_job job{body, count, hands_for(threads, deal), &failure};
  const bool shared = threads > 1 && !inside_parallel_for && enter_pool(job, threads);
  take_items(job, 0);
  if (shared) leave_pool();
#if HEED_EXCEPTIONS
  if (failure != nullptr) std::rethrow_exception(failure);
#endif
}

}  // namespace HEED_ABI
}  // namespace heed::detail
