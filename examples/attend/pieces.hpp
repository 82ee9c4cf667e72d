// A long job in pieces, so that its progress can be shown and its weights fit into memory.
#pragma once

#include <algorithm>
#include <vector>

#include "problem.hpp"

namespace attend {

/// Pieces of at most about `most_scores` scores each: batch items, then heads in whole groups, then rows. The results
/// are the same bits however a job is cut.
template <class T>
std::vector<piece> pieces_of(problem<T> const& job, double most_scores) {
  constexpr index_t least_rows = 512;  // fewer would keep a large machine waiting
  const auto steps = [&](double scores_of_one, index_t all, index_t least) {
    const double fitting = most_scores / std::max(scores_of_one, 1.0);
    if (fitting >= static_cast<double>(all)) return std::max(all, least);
    return std::max(static_cast<index_t>(fitting) / least * least, least);
  };
  const double of_row = static_cast<double>(job.keys() * job.group());
  const double of_group = of_row * static_cast<double>(job.rows());
  const double of_batch_item = of_group * static_cast<double>(job.key.view.extent(1));
  const index_t batch_step = steps(of_batch_item, job.batch_size(), 1);
  const index_t head_step = batch_step > 1 ? job.num_heads() : steps(of_group, job.key.view.extent(1), 1) * job.group();
  const index_t row_step = head_step > job.group() ? job.rows() : steps(of_row, job.rows(), least_rows);

  std::vector<piece> pieces;
  for (index_t b = 0; b < job.batch_size(); b += batch_step) {
    for (index_t h = 0; h < job.num_heads(); h += head_step) {
      for (index_t r = 0; r < job.rows(); r += row_step) {
        pieces.push_back({{b, std::min(b + batch_step, job.batch_size())},
                          {h, std::min(h + head_step, job.num_heads())},
                          {r, std::min(r + row_step, job.rows())}});
      }
    }
  }
  return pieces;
}

/// How much of a job a piece is.
inline double scores_in(piece const& at, index_t keys) {
  return static_cast<double>(at.batch.size()) * static_cast<double>(at.head.size()) *
         static_cast<double>(at.row.size()) * static_cast<double>(keys);
}

}  // namespace attend
