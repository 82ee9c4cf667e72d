// Attention on a program's own threads: two worker threads serve a queue, and a class of some lines lends them to heed.
//
// An executor is anything with parallel_for(count, body); the one here works also where every worker is itself inside a
// call, because a caller does whatever nobody else has begun. For OpenMP, oneTBB and Eigen's ThreadPool there are
// adaptors in heed/interop/. Expected last line: "8 requests on 2 threads agree with the calls on one".
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <heed/heed.hpp>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

using heed::index_t;

// A queue of jobs as many programs have one.
class job_queue {
 public:
  explicit job_queue(int threads) {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { serve(); });
  }
  ~job_queue() {
    for (std::size_t i = 0; i < workers_.size(); ++i) submit(nullptr);  // an empty job sends one worker home
    for (std::thread& worker : workers_) worker.join();
  }
  void submit(std::function<void()> job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push(std::move(job));
    changed_.notify_one();
  }
  int size() const { return static_cast<int>(workers_.size()); }

 private:
  void serve() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return !jobs_.empty(); });
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop();
      lock.unlock();
      if (job == nullptr) return;
      job();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> jobs_;
  std::vector<std::thread> workers_;
};

// What makes an executor of it. The indices are handed out one by one, to the caller too; what is still in the queue
// when all are done finds none left.
struct queue_executor {
  job_queue& queue;

  int concurrency() const { return queue.size(); }
  template <class Body>
  void parallel_for(index_t count, Body const& body) const {
    struct progress {
      std::mutex mutex;
      std::condition_variable changed;
      index_t next = 0, done = 0;
    };
    const auto shared = std::make_shared<progress>();
    const auto work = [=] {
      std::unique_lock<std::mutex> lock(shared->mutex);
      while (shared->next < count) {
        const index_t mine = shared->next++;
        lock.unlock();
        body(mine);
        lock.lock();
        if (++shared->done == count) shared->changed.notify_all();
      }
    };
    for (index_t i = 1; i < count; ++i) queue.submit(work);
    work();
    std::unique_lock<std::mutex> lock(shared->mutex);
    shared->changed.wait(lock, [&] { return shared->done == count; });
  }
};

int main() {
  heed::tensor<float, 4> query({1, 8, 200, 64}), key = query, value = query;
  for (index_t i = 0; i < query.size(); ++i) {
    query.data()[i] = static_cast<float>((31 * i + 1) % 97 - 48) / 64;
    key.data()[i] = static_cast<float>((5 * i + 20) % 97 - 48) / 64;
    value.data()[i] = static_cast<float>((7 * i + 30) % 97 - 48) / 64;
  }
  const auto alone = heed::attention(query, key, value, heed::causal{}, {.threads = 1});

  job_queue queue(2);
  const queue_executor executor{queue};  // referred to, so it has a name and lives as long as the calls
  std::printf("%s", heed::explain(query, key, value, heed::causal{}, {.executor = executor}).c_str());

  // Requests that are themselves jobs of the queue: their calls lend the same two threads.
  std::vector<heed::tensor<float, 4>> answers(8);
  const auto request = [&](index_t i) {
    answers[static_cast<std::size_t>(i)] = heed::attention(query, key, value, heed::causal{}, {.executor = executor});
  };
  executor.parallel_for(8, request);

  for (auto const& answer : answers) {
    if (std::memcmp(answer.data(), alone.data(), static_cast<std::size_t>(alone.size()) * sizeof(float)) != 0) {
      std::printf("MISMATCH: an executor changed the result\n");
      return 1;
    }
  }
  std::printf("%d requests on %d threads agree with the calls on one\n", static_cast<int>(answers.size()),
              executor.concurrency());
  return 0;
}
