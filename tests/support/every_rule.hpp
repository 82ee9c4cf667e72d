// Every rule at once, in one type: what a combination leaves out is there with numbers that change nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "support/combination.hpp"

namespace heed::test {

/// A functor that is on or off.
template <class Function>
struct switched {
  Function function;
  bool is_on;
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return heed::select(is_on, Real(function(score, at)), score);
  }
};
template <class Function>
struct switched_slope {
  Function slope;
  bool is_on;
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return is_on ? slope(score, at) : Real(1);
  }
};
struct slope_of_bending {
  template <class Real>
  Real operator()(Real score, position const&) const {
    const Real bent = heed::tanh(Real(0.25) * score);
    return Real(0.5) + Real(0.25) * (1 - bent * bent);
  }
};
struct slope_of_halving {
  template <class Real>
  Real operator()(Real, position const& at) const {
    return at.key % 3 == 0 ? Real(1) : Real(0.5);
  }
};

/// Visible wherever `twice_as_far` is, or everywhere.
struct switched_mask {
  twice_as_far mask;
  bool is_on;
  bool operator()(position const& at) const { return !is_on || mask(at); }
  cover operator()(block const& area) const { return is_on ? mask(area) : cover::full; }
};

/// Functors that cannot be copied byte by byte: kernels use them where they are.
struct switched_functor {
  hides_some functor;
  bool is_on;
  bool operator()(position const& at) const { return !is_on || functor(at); }
};
struct halving_elsewhere {
  std::vector<index_t> period{3};
  template <class Real>
  Real operator()(Real score, position const& at) const {
    return heed::select(at.key % period[0] == 0, score, Real(0.5) * score + Real(0.25));
  }
};

class every_rule {
 public:
  explicit every_rule(combination const& given)
      : given_(given),
        everywhere_(static_cast<std::size_t>(given.sizes.batch), INT64_MAX),
        one_document_(static_cast<std::size_t>(given.sizes.keys)),
        one_query_document_(static_cast<std::size_t>(given.sizes.rows)),
        no_slopes_(static_cast<std::size_t>(given.sizes.heads)),
        no_logits_(static_cast<std::size_t>(given.sizes.heads), -std::numeric_limits<float>::infinity()) {
    yes_.data()[0] = one_block_.data()[0] = true;
    no_table_ = tensor<float, 2>({given.data.stages.table.extent(0), given.sizes.heads});
  }
  every_rule(every_rule const&) = delete;
  every_rule& operator=(every_rule const&) = delete;

 private:
  [[nodiscard]] bool has(part one) const { return given_.these.has(one); }
  [[nodiscard]] alibi alibi_stage() const {
    return has(part::alibi) ? alibi{given_.data.stages.slopes} : alibi{no_slopes_};
  }
  [[nodiscard]] bias first_bias() const { return has(part::bias) ? given_.data.stages.dense() : bias(no_term_); }
  [[nodiscard]] bias second_bias() const {
    return has(part::second_bias) ? given_.more.stages.dense() : bias(no_term_);
  }
  [[nodiscard]] relative_bias relative() const {
    relative_bias stage = given_.data.stages.relative();
    if (!has(part::relative)) stage.table = no_table_;
    return stage;
  }
  [[nodiscard]] auto sinks() const {
    return sink{has(part::sink) ? list<float>(given_.data.stages.logits) : list<float>(no_logits_)} &
           sink{has(part::second_sink) ? list<float>(given_.more.stages.more_logits) : list<float>(no_logits_)};
  }
  [[nodiscard]] window around() const {
    window sight = has(part::window) ? given_.data.around : window{};
    if (has(part::causal)) sight.right = 0;
    return sight;
  }
  [[nodiscard]] auto masks() const {
    return around() & prefix{has(part::prefix) ? list<index_t>(given_.data.prefix_len) : list<index_t>(everywhere_)} &
           (has(part::documents) ? given_.data.packed()
                                 : documents{.ids = one_document_, .query_ids = one_query_document_}) &
           (has(part::block_sparse)
                ? given_.data.sparse()
                : block_sparse{.blocks = one_block_, .block_rows = INT64_MAX, .block_keys = INT64_MAX}) &
           (has(part::lengths) ? given_.some() : lengths{}) &
           (has(part::keep) ? given_.data.dense<true>() : keep_mask(yes_)) &
           (has(part::drop) ? given_.more.dense<false>() : drop_mask(no_)) &
           mask_fn(switched_mask{given_.far, has(part::functor)}, switched_mask{given_.far, has(part::functor)}) &
           mask_fn(switched_functor{given_.data.functor, has(part::functor_elsewhere)});
  }

  /// Stages in an order of their own, masks among them.
  template <class First, class Second>
  [[nodiscard]] auto joined(First const& bends, Second const& halves) const {
    return alibi_stage() & first_bias() & (bends & masks()) & relative() & second_bias() & halves & sinks();
  }
  [[nodiscard]] auto terms() const { return alibi_stage() & first_bias() & relative() & second_bias(); }

 public:
  /// As a kernel is given it: the library differentiates the functors.
  [[nodiscard]] auto rule() const {
    return joined(score_fn(switched<bending>{{}, given_.these.has(part::score_fn)}),
                  score_fn(switched<halving_elsewhere>{{}, given_.these.has(part::second_score_fn)}));
  }
  /// The same with derivatives by hand.
  [[nodiscard]] auto exact_rule() const {
    const bool bends = given_.these.has(part::score_fn), halves = given_.these.has(part::second_score_fn);
    return joined(score_fn(switched<bending>{{}, bends}, switched_slope<slope_of_bending>{{}, bends}),
                  score_fn(switched<halving>{{}, halves}, switched_slope<slope_of_halving>{{}, halves}));
  }
  /// Without functors of scores.
  [[nodiscard]] auto rule_of_terms() const { return terms() & sinks() & masks(); }

 private:
  combination const& given_;
  std::vector<index_t> everywhere_, one_document_, one_query_document_;
  std::vector<float> no_slopes_, no_logits_;
  tensor<float, 1> no_term_{{1}};
  tensor<float, 2> no_table_;
  tensor<bool, 1> yes_{{1}}, no_{{1}};
  tensor<bool, 2> one_block_{{1, 1}};
};

}  // namespace heed::test
