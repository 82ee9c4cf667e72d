// Comparison with results that were recorded elsewhere.
#pragma once

#include <algorithm>
#include <filesystem>
#include <heed/interop/npy.hpp>
#include <string>

#include "load.hpp"
#include "run.hpp"

namespace attend {

/// The largest error of out and lse, and of weights where the folder has them. Only for jobs whose weights fit into
/// memory.
template <class T>
largest_error against_recorded(std::string const& folder, problem<T> const& job, results<T> const& found) {
  largest_error worst;
  const auto compare = [&](std::string const& name, auto const& values) {
    heed::npy_array array = heed::load_npy(folder + "/" + name);
    array.shape = {operand<double>::count(array.shape)};
    const auto expected = array.as<double, 1>();
    if (expected.size() != values.size()) refuse(folder + "/" + name + " has another size than the result");
    for (index_t i = 0; i < values.size(); ++i) worst.add(static_cast<double>(values.data()[i]), expected(i));
  };
  compare("out.npy", found.out.data);
  compare("lse.npy", found.lse);
  if (std::filesystem::exists(folder + "/weights.npy")) {
    heed::tensor<T, 4> weights({job.batch_size(), job.num_heads(), job.rows(), job.keys()});
    (void)facts_of<T>(job, weights.view());
    compare("weights.npy", weights);
  }
  return worst;
}

/// The same for a call of its own, in float, without a word.
inline double recorded_error(arguments const& given) {
  const problem<float> job = load_problem<float>(given, heed::load_npy(given.query));
  results<float> found = room_for(job);
  run(job, found, 1);
  return against_recorded(given.recorded, job, found).value;
}

}  // namespace attend
