// The passes over a job: the attention itself, timed; then the weights for what they say; then the reference.
#pragma once

#include <algorithm>
#include <chrono>
#include <heed/heed.hpp>
#include <heed/reference/forward.hpp>
#include <string>
#include <vector>

#include "facts.hpp"
#include "pieces.hpp"
#include "progress.hpp"
#include "results.hpp"

namespace attend {

template <class T>
heed::tensor_view<T, 3> cut_lse(heed::tensor<T, 3>& lse, piece const& at) {
  const auto cut4 = cut(heed::tensor_view<T, 4>(lse.data(), {lse.extent(0), lse.extent(1), lse.extent(2), 1}), at);
  return {
      cut4.data(), {cut4.extent(0), cut4.extent(1), cut4.extent(2)}, {cut4.stride(0), cut4.stride(1), cut4.stride(2)}};
}

/// Runs the job once, or again and again where that takes less than 50 ms. `peak` (GFLOP/s) sets the size of pieces:
/// about a tenth of a second each.
template <class T>
void run(problem<T> const& job, results<T>& found, double peak) {
  const double flops_of_score = 2.0 * static_cast<double>(job.query.view.extent(3) + job.value.view.extent(3));
  const auto pieces = pieces_of(job, 0.1 * peak * 1e9 / flops_of_score);
  const auto pass = [&] {
    progress bar("attention", scores_in(job.whole(), job.keys()));
    const auto begin = std::chrono::steady_clock::now();
    for (piece const& at : pieces) {
      job.with(at, [&](auto query, auto key, auto value, auto const& rule, auto const& options) {
        const auto out = cut(found.out.view, at);
        heed::attention(query, key, value, heed::into(out).lse(cut_lse(found.lse, at)), rule, options);
      });
      bar.add(scores_in(at, job.keys()));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double all = found.seconds = pass();
  for (found.runs = 1; all < 0.05; ++found.runs) {
    const double seconds = pass();
    found.seconds = std::min(found.seconds, seconds);
    all += seconds;
  }
}

/// The weights of one piece [b, h, r, Skv].
template <class T>
void weights_of(problem<T> const& job, piece const& at, heed::tensor_view<T, 4> weights, heed::tensor_view<T, 3> lse) {
  job.with(at, [&](auto query, auto key, auto value, auto const& rule, auto const& options) {
    heed::tensor<T, 4> out({query.extent(0), query.extent(1), query.extent(2), value.extent(3)});
    heed::attention(query, key, value, heed::into(out).lse(lse).weights(weights), rule, options);
  });
}

/// Goes over all weights in pieces of about 64 MiB; `keep` (null or [B, H, Sq, Skv]) takes them.
template <class T>
row_facts facts_of(problem<T> const& job, heed::tensor_view<T, 4> keep) {
  row_facts facts;
  progress bar("weights  ", scores_in(job.whole(), job.keys()));
  const auto pieces = pieces_of(job, static_cast<double>((64 << 20) / sizeof(T)));
  double largest = 0;
  for (piece const& at : pieces) largest = std::max(largest, scores_in(at, job.keys()));
  heed::tensor<T, 1> scratch({keep.size() > 0 ? index_t{0} : static_cast<index_t>(largest)});
  for (piece const& at : pieces) {
    const heed::tensor_view<T, 4> own(scratch.data(), {at.batch.size(), at.head.size(), at.row.size(), job.keys()});
    const heed::tensor_view<T, 4> weights = keep.size() > 0 ? cut(keep, at) : own;
    heed::tensor<T, 3> lse({at.batch.size(), at.head.size(), at.row.size()});
    weights_of<T>(job, at, weights, lse);
    facts.add<T>(weights, lse, at.batch.begin, at.head.begin, at.row.begin);
    bar.add(scores_in(at, job.keys()));
  }
  return facts;
}

struct errors {
  largest_error out, lse;
};

/// Against plain loops in double precision.
template <class T>
errors check(problem<T> const& job, results<T>& found) {
  errors worst;
  progress bar("reference", scores_in(job.whole(), job.keys()));
  for (piece const& at : pieces_of(job, 1e6)) {
    job.with(at, [&](auto query, auto key, auto value, auto const& rule, auto const& options) {
      const auto expected = heed::reference::solve(query, key, value, rule, options, false);
      const auto out = cut(found.out.view, at);
      const auto lse = cut_lse(found.lse, at);
      for (index_t i = 0; i < expected.lse.size(); ++i) {
        const index_t row = i % at.row.size(), h = i / at.row.size() % at.head.size(),
                      b = i / at.row.size() / at.head.size();
        worst.lse.add(static_cast<double>(lse(b, h, row)), expected.lse(b, h, row));
        for (index_t d = 0; d < out.extent(3); ++d) {
          worst.out.add(static_cast<double>(out(b, h, row, d)), expected.out(b, h, row, d));
        }
      }
    });
    bar.add(scores_in(at, job.keys()));
  }
  return worst;
}

}  // namespace attend
