// The stages of a scenario: terms, slopes, tables, logits and a functor, drawn from its sizes and its seed.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "heed/heed.hpp"
#include "support/random.hpp"
#include "support/stored.hpp"

namespace heed::test {

enum class stage_kind { none, bias, masked_bias, alibi, relative, user, sinks, all, count };
inline char const* name_of(stage_kind kind) {
  constexpr char const* names[] = {"none",
                                   "bias",
                                   "keep & bias & sink",
                                   "alibi & causal",
                                   "relative_bias",
                                   "score_fn",
                                   "sink & sink & lengths",
                                   "alibi & bias & causal & score_fn & keep & relative_bias & bias & sink & lengths"};
  return names[static_cast<int>(kind)];
}

/// A functor of a user: it bends, and tells keys, rows and heads apart.
struct bending {
  template <class Real>
  Real operator()(Real score, position const& at) const {
    const Real odd = static_cast<Real>((at.key + at.query + at.head + at.batch) & 1);
    return Real(0.5) * score + heed::tanh(Real(0.25) * score) - odd;
  }
};

struct stage_data {
  stored<half> narrow_terms;
  stored<bfloat16> brain_terms;
  stored<float> terms;
  stored<double> wide_terms;
  int kind = 0, rank = 4;
  std::vector<float> slopes, logits, more_logits;
  tensor<float, 2> table;
  bool bidirectional = true;
  index_t max_distance = 128;

  stage_data() = default;
  stage_data(std::uint64_t seed, index_t batch, index_t heads, index_t rows, index_t keys) {
    random_source random(seed + 4242);
    const auto extent = [&](index_t whole) { return random.chance(0.3) ? 1 : whole; };
    axes<4> extents(extent(batch), extent(heads), extent(rows), extent(keys));
    rank = static_cast<int>(random.between(1, 4));
    for (int axis = 0; axis < 4 - rank; ++axis) extents[static_cast<std::size_t>(axis)] = 1;
    kind = static_cast<int>(random.between(0, 3));
    const layout how = input_layouts[random.bits() % 10];
    const double hides = random.chance(0.3) ? random.pick({0.02, 0.3, 0.9}) : 0;
    const auto term = [&](auto...) {
      return random.chance(hides) ? -std::numeric_limits<double>::infinity() : 2 * random.normal();
    };
    const auto fill = [&](auto& to) {
      to = {extents, how};
      to.fill(term);
    };
    if (kind == 0) fill(narrow_terms);
    if (kind == 1) fill(brain_terms);
    if (kind == 2) fill(terms);
    if (kind == 3) fill(wide_terms);
    for (index_t head = 0; head < heads; ++head) {
      slopes.push_back(static_cast<float>(0.25 * random.normal()));
      logits.push_back(random.chance(0.1) ? -std::numeric_limits<float>::infinity()
                                          : static_cast<float>(3 * random.normal()));
      more_logits.push_back(static_cast<float>(random.normal()));
    }
    const index_t buckets = random.pick({index_t{2}, index_t{3}, index_t{4}, index_t{8}, index_t{32}, index_t{33}});
    table = tensor<float, 2>({buckets, heads});
    for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<float>(random.normal());
    bidirectional = random.chance(0.5);
    max_distance = random.pick({index_t{17}, index_t{40}, index_t{128}, index_t{5000}});
  }

  /// bias(view) of the rank and type drawn; strides of repeated axes are not to be used.
  [[nodiscard]] bias dense() const {
    const auto ranked = [this](auto const& view) {
      using element = std::remove_reference_t<decltype(*view.data())>;
      const auto e = [&](std::size_t axis) { return view.extent(axis); };
      const auto t = [&](std::size_t axis) { return view.extent(axis) == 1 ? 999 : view.stride(axis); };
      switch (rank) {
        case 1: return bias(tensor_view<element, 1>(view.data(), {e(3)}, {t(3)}));
        case 2: return bias(tensor_view<element, 2>(view.data(), {e(2), e(3)}, {t(2), t(3)}));
        case 3: return bias(tensor_view<element, 3>(view.data(), {e(1), e(2), e(3)}, {t(1), t(2), t(3)}));
        default: return bias(tensor_view<element, 4>(view.data(), {e(0), e(1), e(2), e(3)}, {t(0), t(1), t(2), t(3)}));
      }
    };
    switch (kind) {
      case 0: return ranked(narrow_terms.read_only());
      case 1: return ranked(brain_terms.read_only());
      case 2: return ranked(terms.read_only());
      default: return ranked(wide_terms.read_only());
    }
  }
  [[nodiscard]] relative_bias relative() const {
    return {.table = table, .bidirectional = bidirectional, .max_distance = max_distance};
  }
};

/// Calls visit(rule) with the stages of that kind and what goes with them.
template <bool All, class Visitor>
void with_stage(stage_kind kind, stage_data const& data, keep_mask const& keep, lengths const& some,
                Visitor const& visit) {
  if constexpr (All) {
    switch (kind) {
      case stage_kind::bias: return visit(data.dense());
      case stage_kind::masked_bias: return visit(keep & data.dense() & sink{data.logits});
      case stage_kind::alibi: return visit(alibi{data.slopes} & causal{});
      case stage_kind::relative: return visit(data.relative());
      case stage_kind::user: return visit(score_fn(bending{}));
      case stage_kind::sinks: return visit(sink{data.logits} & sink{data.more_logits} & some);
      default: break;
    }
  }
  visit(alibi{data.slopes} & data.dense() & causal{} & score_fn(bending{}) & keep & data.relative() & data.dense() &
        sink{data.logits} & some);
}

}  // namespace heed::test
