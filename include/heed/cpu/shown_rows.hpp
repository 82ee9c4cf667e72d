// The scores of a few query rows, written for the caller, and to weights, as the keys pass.
#pragma once

#include "heed/cpu/packing.hpp"
#include "heed/cpu/row_outputs.hpp"
#include "heed/cpu/row_set.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

template <class Real>
class shown_rows {
 public:
  shown_rows(kernel<Real> const& run, index_t batch, index_t score_stride) noexcept
      : run_(run), batch_(batch), score_stride_(score_stride) {}

  /// Scores of a run, to every output of that stage.
  void write(row_set<Real> const& set, row_run const& run, score_stage stage) const {
    for (score_output const& one : run_.call.scores) {
      if (one.stage == stage) write(set, run, one.to);
    }
  }
  void write(row_set<Real> const& set, row_run const& run, operand const& to) const {
    for (index_t row = run.row; row < run.row + run.rows; ++row) {
      write_keys(set, row, set.scores + row * score_stride_ + run.key_begin - run.block_begin, to, run.key_begin,
                 run.key_end);
    }
  }

  /// Numbers of one row at keys [begin, end) of an output.
  [[gnu::noinline]] void write_keys(row_set<Real> const& set, index_t row, Real const* line, operand const& to,
                                    index_t begin, index_t end) const {
    char* const first =
        static_cast<char*>(to.row(batch_, set.head + row / set.rows_per_head, set.row_begin + row % set.rows_per_head));
    run_.verb.unpack_rows(line, 1, end - begin, first + begin * to.strides[3] * element_size(to.kind), to.kind, 0,
                          to.strides[3]);
  }

  /// Keys [begin, end) of all rows, where nothing has been seen, or not yet.
  [[gnu::noinline]] void write_unseen(row_set<Real> const& set, index_t begin, index_t end) const {
    for (index_t row = 0; row < set.rows(); ++row) {
      const index_t head = set.head + row / set.rows_per_head, query = set.row_begin + row % set.rows_per_head;
      write_unseen_scores(run_.call, batch_, head, query, begin, end);
      if (weights_hold_scores<Real>(run_.call)) {
        fill_row(run_.call.weights, batch_, head, query, begin, end, -__builtin_inff());
      }
    }
  }

 private:
  kernel<Real> const& run_;
  index_t batch_, score_stride_;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
