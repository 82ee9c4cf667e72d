// executor_ref: the threads of somebody else, through one member function, parallel_for.
#pragma once

#include <concepts>
#include <type_traits>

#include "heed/base/index.hpp"

namespace heed {

/// What an executor runs: `body(index)`. A plain copyable value of two pointers; it never throws.
class parallel_body {
 public:
  using function = void (*)(void const* context, index_t index);

  HEED_INLINE constexpr parallel_body(function run, void const* context) noexcept : run_(run), context_(context) {}
  HEED_INLINE void operator()(index_t index) const noexcept { run_(context_, index); }

 private:
  function run_;
  void const* context_;
};

/// Anything with a parallel-for:
///
///     void parallel_for(heed::index_t count, Body body);  // Body: a template parameter, heed::parallel_body,
///                                                         // or std::function<void(heed::index_t)>
///     int concurrency();                                  // may be left out
///
/// `parallel_for` calls body(i) exactly once for each i in [0, count), in any order, on any threads (the caller's own
/// among them, or only that one), and returns when every one of these calls has returned - also where it throws
/// something itself. A call waits for none of the others, so they may run one after the other. It must be callable from
/// several threads at once where attention is, and from inside its own tasks where attention is called there.
/// `concurrency` is how many threads it would use, and only decides how the work is cut; absent: the processors that
/// this thread may run on.
template <class Executor>
concept executor_type = requires(Executor& executor, index_t count, parallel_body const& body) {
  executor.parallel_for(count, body);
};

namespace detail {

template <class Executor>
concept counted_executor = requires(Executor& executor) {
  { executor.concurrency() } -> std::convertible_to<int>;
};

inline namespace HEED_ABI {

template <class Executor>
void run_on(void const* executor, index_t count, parallel_body const& body) {
  static_cast<Executor*>(const_cast<void*>(executor))->parallel_for(count, body);
}

/// 0: it does not say.
template <class Executor>
int concurrency_of(void const* executor) {
  if constexpr (counted_executor<Executor>) {
    const int threads = static_cast<Executor*>(const_cast<void*>(executor))->concurrency();
    return threads < 1 ? 1 : threads;
  } else {
    return 0;
  }
}

}  // namespace HEED_ABI
}  // namespace detail

/// A reference to an executor, made implicitly from an lvalue of any executor_type; the executor must outlive the call
/// it is given to. Trivially copyable. An empty one stands for the library's own pool.
class executor_ref {
 public:
  HEED_INLINE constexpr executor_ref() = default;

  // Implicit: an executor is written as a plain option, {.executor = pool}.
  template <class Executor>
  requires(!std::is_same_v<std::remove_cvref_t<Executor>, executor_ref>)  //
      HEED_INLINE constexpr executor_ref(Executor&& executor) noexcept {  // NOLINT
    using target = std::remove_reference_t<Executor>;
    static_assert(std::is_lvalue_reference_v<Executor>,
                  "heed::executor_ref: a temporary executor is gone before the call uses it; give it a name first, and "
                  "pass that");
    static_assert(
        executor_type<target>,
        "heed::executor_ref: an executor needs a member parallel_for(count, body) that calls body(i) for each "
        "i in [0, count); for OpenMP, oneTBB and Eigen's ThreadPool take an adaptor of heed/interop/");
    if constexpr (executor_type<target>) {
      object_ = __builtin_addressof(executor);
      run_ = detail::run_on<target>;
      concurrency_ = detail::concurrency_of<target>;
    }
  }

  [[nodiscard]] HEED_INLINE constexpr bool given() const noexcept { return run_ != nullptr; }
  /// How many threads the executor would use; 0 where it does not say.
  [[nodiscard]] HEED_INLINE int concurrency() const { return given() ? concurrency_(object_) : 0; }
  HEED_INLINE void parallel_for(index_t count, parallel_body const& body) const { run_(object_, count, body); }

 private:
  void const* object_ = nullptr;
  void (*run_)(void const* executor, index_t count, parallel_body const& body) = nullptr;
  int (*concurrency_)(void const* executor) = nullptr;
};

}  // namespace heed
