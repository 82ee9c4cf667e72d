// What one call gives, in the layout of its query's file.
#pragma once

#include <heed/heed.hpp>
#include <vector>

#include "problem.hpp"

namespace attend {

template <class T>
struct results {
  operand<T> out;
  heed::tensor<T, 3> lse;
  double seconds = 0;  // the best of `runs`
  int runs = 0;
};

/// Room for the results, laid out like the query.
template <class T>
results<T> room_for(problem<T> const& job) {
  std::vector<index_t> shape = job.query.shape;
  shape.back() = job.value.view.extent(3) * (shape.size() < 4 ? job.num_heads() : 1);
  return {.out = operand<T>(shape, job.layout, job.num_heads()),
          .lse = heed::tensor<T, 3>({job.batch_size(), job.num_heads(), job.rows()})};
}

}  // namespace attend
