// What an operator says about its scores, as rules of heed.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "case.hpp"
#include "layout.hpp"

namespace operators {

/// a & b, where no_mask stands for nothing: a call is written as a user would write it.
template <class First, class Second>
[[nodiscard]] auto join(First const& first, Second const& second) {
  if constexpr (std::is_same_v<First, heed::no_mask>) {
    return second;
  } else {
    return first & second;
  }
}

/// attn_mask, with its last axis padded to all keys and its row axis to all rows of the query buffer: what the operator
/// pads with hides, the rest is never read.
template <class Element>
class padded_mask {
 public:
  padded_mask(heed::npy_array const& array, Element padding, index_t rows, index_t keys)
      : rank_(array.rank()), padded_(padded_extents(array, rows, keys)) {
    heed::npy_array four = array;
    four.shape.insert(four.shape.begin(), 4 - rank_, 1);
    const tensor<Element, 4> given = four.as<Element, 4>();
    for (index_t b = 0; b < padded_.extent(0); ++b) {
      for (index_t h = 0; h < padded_.extent(1); ++h) {
        for (index_t i = 0; i < padded_.extent(2); ++i) {
          for (index_t j = 0; j < keys; ++j) {
            const bool is_given = i < given.extent(2) && j < given.extent(3);
            padded_(b, h, i, j) = is_given ? given(b, h, i, j) : padding;
          }
        }
      }
    }
  }

  /// Calls `visit` with a view of the keys [begin, end) in the rank that the operator was given.
  template <class Visitor>
  void with_keys(index_t begin, index_t end, Visitor const& visit) const {
    switch (rank_) {
      case 1: return visit(keys<1>(begin, end));
      case 2: return visit(keys<2>(begin, end));
      case 3: return visit(keys<3>(begin, end));
      default: return visit(keys<4>(begin, end));
    }
  }

 private:
  [[nodiscard]] static heed::axes<4> padded_extents(heed::npy_array const& array, index_t rows, index_t keys) {
    std::vector<index_t> shape = array.shape;
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    return {shape[0], shape[1], shape[2] == 1 ? 1 : rows, keys};
  }

  template <std::size_t Rank>
  [[nodiscard]] tensor_view<Element const, Rank> keys(index_t begin, index_t end) const {
    std::array<index_t, Rank> extents, strides;
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      extents[axis] = padded_.extent(axis + 4 - Rank);
      strides[axis] = padded_.stride(axis + 4 - Rank);
    }
    extents[Rank - 1] = end - begin;
    return {padded_.data() + begin, extents, strides};
  }

  std::size_t rank_;
  tensor<Element, 4> padded_;
};

/// The score_mod of FlexAttention is a graph; heed's is a functor. Those of the suite, told by their operators.
template <class Visitor>
void with_score_mod(onnx_case const& c, Visitor const& visit) {
  const auto found = c.graphs.find("score_mod");
  if (found == c.graphs.end()) return visit(heed::no_mask{});
  const std::string& graph = found->second;
  const auto constant = [&](char const* name) { return static_cast<float>(c.constants.at(name)); };
  if (graph == "Add") {
    return visit(heed::score_fn([added = constant("bias")](auto score, heed::position) { return score + added; }));
  }
  if (graph == "Div Tanh Mul") {
    return visit(
        heed::score_fn([cap = constant("cap")](auto score, heed::position) { return heed::tanh(score / cap) * cap; }));
  }
  const std::string rows_and_keys = "Shape Gather Gather Range Reshape Range Reshape ";
  if (graph == rows_and_keys + "GreaterOrEqual Where") {
    return visit(heed::score_fn([hidden = constant("neg_inf")](auto score, heed::position at) {
      return heed::select(at.query >= at.key, score, decltype(score)(hidden));
    }));
  }
  if (graph == rows_and_keys + "Sub Cast Add") {
    return visit(heed::score_fn(
        [](auto score, heed::position at) { return score + static_cast<decltype(score)>(at.query - at.key); }));
  }
  throw std::runtime_error("a score_mod that is not translated: " + graph);
}

}  // namespace operators
