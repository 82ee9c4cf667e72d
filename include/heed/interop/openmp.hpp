// OpenMP's threads as an executor: `heed::openmp_executor team;`, then {.executor = team}.
#pragma once

#if !defined(_OPENMP)
#error "heed/interop/openmp.hpp needs OpenMP: compile and link with -fopenmp (clang: install libomp-dev first)."
#endif

#include <omp.h>

#include "heed/base/executor.hpp"

namespace heed {
inline namespace HEED_ABI {

/// Runs tasks on the OpenMP team that a parallel region of the calling thread gets.
///
/// Threads: omp_get_max_threads(), so OMP_NUM_THREADS and omp_set_num_threads apply; the whole team, however few the
///   tasks, because a team that changes its size starts and ends threads. Called from inside a parallel region it has
///   the team that nested regions get: by default one thread, the caller.
/// Has no state: one serves all threads.
struct openmp_executor {
  [[nodiscard]] int concurrency() const noexcept { return omp_in_parallel() != 0 ? 1 : omp_get_max_threads(); }

  template <class Body>
  void parallel_for(index_t count, Body const& body) const {
#pragma omp parallel for schedule(dynamic, 1)
    for (index_t index = 0; index < count; ++index) body(index);
  }
};

}  // namespace HEED_ABI
}  // namespace heed
