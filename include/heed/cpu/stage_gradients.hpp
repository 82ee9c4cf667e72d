// The gradients of a rule's stages: what each tile of scores adds to them, and in which order.
#pragma once

#include "heed/cpu/query_tile.hpp"
#include "heed/mask/combine.hpp"
#include "heed/score/alibi.hpp"
#include "heed/score/bias.hpp"
#include "heed/score/relative.hpp"
#include "heed/score/sink.hpp"
#include "heed/view/backward_problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// How many sinks a rule has.
template <class Rule>
inline constexpr int sink_count = std::is_same_v<Rule, sink> ? 1 : 0;
template <class First, class Second>
inline constexpr int sink_count<both<First, Second>> = sink_count<First> + sink_count<Second>;

/// A number of slots that depends on the tile.
inline constexpr index_t slot_for_each_lane = -1;

enum class stage_kind : unsigned char { bias, slopes, table };

/// One stage that adds terms to scores, in the order written, and where its gradient goes.
struct stage_gradient {
  stage_kind kind = stage_kind::bias;
  operand to;                            // as the caller gave it; not given: not wanted
  relative_bias const* table = nullptr;  // of a table: whose buckets

  // Of a bias: its sums, in the accumulate type, in `to` itself where it has that type.
  void* sums = nullptr;
  index_t strides[4] = {0, 0, 0, 0};
  bool in_place = false;
  bool is_own = false;  // each score has a term of its own, so that nothing is summed

  // Of all others, and of a bias that keys share: numbers that each tile sums for itself first.
  index_t slot = 0;
  index_t slots = 0;
  double* totals = nullptr;  // of slopes and tables [slots, num_heads]

  [[nodiscard]] bool wanted() const noexcept { return to.given() && !to.empty(); }
  [[nodiscard]] bool has_keys() const noexcept { return to.extents[3] != 1; }
  [[nodiscard]] bool has_rows() const noexcept { return to.extents[2] != 1; }
  [[nodiscard]] bool is_dense() const noexcept { return kind == stage_kind::bias && has_keys() && has_rows(); }

  template <class Real>
  [[nodiscard]] Real* at(index_t batch, index_t head, index_t row, index_t key) const noexcept {
    return static_cast<Real*>(sums) + batch * strides[0] + head * strides[1] + row * strides[2] + key * strides[3];
  }
};

/// The rows of a dense bias's sums at some keys of a block will be written soon.
template <class Real>
void want_sums(stage_gradient const& stage, block const& area, index_t key_begin, index_t key_end,
               read_ahead& ahead) noexcept {
  if (!stage.wanted() || !stage.is_dense() || stage.strides[3] != 1) return;
  constexpr index_t bytes = sizeof(Real);
  ahead.want_rows(stage.at<Real>(area.batch, area.head, area.query_begin, key_begin), (key_end - key_begin) * bytes,
                  stage.strides[2] * bytes);
}

/// A bias: block of gradients as rows [rows, keys], into its sums.
template <class Real>
void add_rows_of_bias(stage_gradient const& stage, block const& area, Real const* rows) noexcept {
  const index_t keys = area.key_end - area.key_begin, step = stage.strides[3];
  for (index_t row = area.query_begin; row < area.query_end; ++row, rows += keys) {
    Real* const to = stage.at<Real>(area.batch, area.head, row, area.key_begin);
    if (step == 1) {
      for (index_t key = 0; key < keys; ++key) to[key] = stage.is_own ? rows[key] : to[key] + rows[key];
    } else {
      for (index_t key = 0; key < keys; ++key) to[key * step] = stage.is_own ? rows[key] : to[key * step] + rows[key];
    }
  }
}

/// Gradients [keys, lanes] of the scores at one stage, `rows` of the lanes used: into the stage's sums, or into the
/// tile's own slots.
template <class Real>
void collect_stage(kernel<Real> const& run, stage_gradient const& stage, block const& area, int vectors,
                   Real const* gradient, Real* spare, double* slots) noexcept {
  const index_t lanes = index_t{vectors} * run.verb.lanes;
  const index_t keys = area.key_end - area.key_begin, rows = area.query_end - area.query_begin;
  slots += stage.slot;
  if (stage.is_dense()) {
    if (stage.is_own && stage.strides[3] == 1) {
      return run.verb.unpack_tile(gradient, ones<Real>.lanes, vectors, rows, keys,
                                  stage.at<Real>(area.batch, area.head, area.query_begin, area.key_begin),
                                  stage.strides[2]);
    }
    run.verb.unpack_tile(gradient, ones<Real>.lanes, vectors, rows, keys, spare, keys);
    return add_rows_of_bias(stage, area, spare);
  }
  if (stage.kind == stage_kind::bias && stage.has_keys()) {
    for (index_t key = 0; key < keys; ++key, gradient += lanes) {
      Real sum = 0;
      for (index_t row = 0; row < rows; ++row) sum += gradient[row];
      *stage.at<Real>(area.batch, area.head, 0, area.key_begin + key) += sum;
    }
    return;
  }
  Real* const sums = spare;  // [lanes], or for each distance
  if (stage.kind == stage_kind::table) {
    // A distance is a diagonal: lane - key, from 1 - keys on.
    for (index_t place = 0; place < keys + rows - 1; ++place) sums[place] = Real(0);
    for (index_t key = 0; key < keys; ++key, gradient += lanes) {
      Real* const diagonal = sums + keys - 1 - key;
      for (index_t row = 0; row < rows; ++row) diagonal[row] += gradient[row];
    }
    for (index_t place = 0; place < keys + rows - 1; ++place) {
      const index_t ahead = saturating_sub(area.key_begin + keys - 1 - place - area.query_begin, area.offset);
      slots[stage.table->bucket(ahead)] += static_cast<double>(sums[place]);
    }
    return;
  }
  for (index_t row = 0; row < rows; ++row) sums[row] = Real(0);
  for (index_t key = 0; key < keys; ++key, gradient += lanes) {
    const Real distance = static_cast<Real>(clamped_add(area.query_begin - area.key_begin - key, area.offset));
    for (index_t row = 0; row < rows; ++row) {
      const Real away = distance + static_cast<Real>(static_cast<int>(row));
      sums[row] += stage.kind == stage_kind::bias ? gradient[row] : (away < Real(0) ? away : -away) * gradient[row];
    }
  }
  const bool by_row = stage.kind == stage_kind::bias && stage.has_rows();
  for (index_t row = 0; row < rows; ++row) slots[by_row ? row : 0] += static_cast<double>(sums[row]);
}

/// The slots of a finished tile, into the sums of the stage.
template <class Real>
void add_slots(stage_gradient const& stage, index_t batch, index_t head, index_t num_heads, index_t query_begin,
               index_t rows, double const* slots) noexcept {
  slots += stage.slot;
  if (stage.kind != stage_kind::bias) {
    for (index_t i = 0; i < stage.slots; ++i) stage.totals[i * num_heads + head] += slots[i];
  } else if (!stage.has_keys()) {
    for (index_t i = 0; i < (stage.has_rows() ? rows : 1); ++i) {
      *stage.at<Real>(batch, head, stage.has_rows() ? query_begin + i : 0, 0) += static_cast<Real>(slots[i]);
    }
  }
}

/// Rounds what was summed to the caller's elements, once.
template <class Number>
void write_sums(operand const& to, Number const* sums, index_t const (&strides)[4]) noexcept {
  with_element(to.kind, [&](auto element) {
    using element_type = decltype(element);
    for (index_t batch = 0; batch < to.extents[0]; ++batch) {
      for (index_t head = 0; head < to.extents[1]; ++head) {
        for (index_t row = 0; row < to.extents[2]; ++row) {
          element_type* const line = static_cast<element_type*>(to.row(batch, head, row));
          Number const* const from = sums + batch * strides[0] + head * strides[1] + row * strides[2];
          for (index_t column = 0; column < to.extents[3]; ++column) {
            line[column * to.strides[3]] = static_cast<element_type>(from[column * strides[3]]);
          }
        }
      }
    }
  });
}

/// What of a rule has a gradient of its own, in the order written.
template <class Rule>
struct noted_stages {
  stage_gradient stages[greater(1, differentiable_stages<Rule>)];
  list<float> sinks[greater(1, sink_count<Rule>)];
};

/// `want` says where the gradients go; those that are not wanted have no operand.
template <class Rule>
[[nodiscard]] noted_stages<Rule> note_stages(Rule const& rule, backward_problem const& want) noexcept {
  noted_stages<Rule> noted;
  index_t count = 0, sinks = 0, biases = 0, slopes = 0, tables = 0;
  const auto next = [](item_view<operand> const& from, index_t& place) {
    const index_t at = place++;
    return at < from.size() ? from[at] : operand{};
  };
  for_each_rule(rule, [&](auto const& one) {
    using type = std::remove_cvref_t<decltype(one)>;
    if constexpr (std::is_same_v<type, sink>) {
      noted.sinks[sinks++] = one.logits;
    } else if constexpr (std::is_same_v<type, bias>) {
      stage_gradient& stage = noted.stages[count++];
      stage.to = next(want.biases, biases);
      if (!stage.has_keys()) stage.slots = stage.has_rows() ? slot_for_each_lane : 1;
    } else if constexpr (std::is_same_v<type, alibi>) {
      stage_gradient& stage = noted.stages[count++];
      stage.kind = stage_kind::slopes;
      stage.to = next(want.slopes, slopes);
      stage.slots = 1;
    } else if constexpr (std::is_same_v<type, relative_bias>) {
      stage_gradient& stage = noted.stages[count++];
      stage.kind = stage_kind::table;
      stage.to = next(want.tables, tables);
      stage.table = &one;
      stage.slots = one.table.extent(0);
    }
  });
  return noted;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
