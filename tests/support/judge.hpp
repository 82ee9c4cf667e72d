// How wrong a result may be: twice what a plain loop in the accumulate type is wrong, plus a few units of rounding.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "heed/reference/forward.hpp"
#include "support/any_rule.hpp"
#include "support/elements.hpp"

namespace heed::test {

/// The same numbers in another type.
template <class To, std::size_t R>
tensor<To, R> converted(tensor<double, R> const& from) {
  axes<R> extents = [&]<std::size_t... A>(std::index_sequence<A...>) { return axes<R>(from.extent(A)...); }
  (std::make_index_sequence<R>{});
  tensor<To, R> to(extents);
  for (index_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<To>(from.data()[i]);
  return to;
}

/// `plain_loop` is the accuracy rule itself: twice the error of a plain loop. The largest of few rounding errors is a
/// lottery, so it is for tensors with many rows; `any_size` allows besides what one rounding of each product may do.
enum class strictness { plain_loop, any_size };

/// A judge that cannot be wrong about the last bit of what it judges, and a rival that computes as one would by hand.
/// Inputs are given in double, already rounded to the types of the call.
template <class Accumulate>
class verdict {
 public:
  using wide = judge_of<Accumulate>;

  verdict(tensor<double, 4> const& query, tensor<double, 4> const& key, tensor<double, 4> const& value,
          any_rule<Accumulate> const& rule, attention_options const& options, strictness how = strictness::any_size)
      : truth_(reference::solve<wide>(converted<Accumulate>(query), key, value, rule, options)),
        rival_(reference::solve<Accumulate>(converted<Accumulate>(query), converted<Accumulate>(key),
                                            converted<Accumulate>(value), rule, options)) {
    const index_t group = key.extent(1) > 0 ? query.extent(1) / key.extent(1) : 1;
    double largest_product = 0, largest_term = 0;
    for (index_t b = 0; b < query.extent(0); ++b) {
      const auto exists = reference::limits_of(rule, options.anchor, b, query.extent(2), key.extent(2));
      for (index_t h = 0; h < query.extent(1); ++h) {
        for (index_t j = exists.key_begin; j < exists.key_end; ++j) {
          bool visible = false;
          for (index_t i = 0; i < exists.query_len; ++i) {
            if (!is_visible(rule, position{b, h, i, j, exists.offset}, exists)) continue;
            visible = true;
            if (how == strictness::plain_loop) break;
            reference::detail::staged<wide> terms{0};
            adjust<Accumulate>(rule, position{b, h, i, j, exists.offset}, terms);
            const double term = std::fabs(static_cast<double>(terms.score));
            if (term > largest_term && term < 1e6) largest_term = term;  // larger ones, the judge rounds as well
            double product = 0;
            for (index_t d = 0; d < query.extent(3); ++d) {
              product += std::fabs(query(b, h, i, d) * key(b, h / group, j, d));
            }
            if (product > largest_product && !std::isinf(product)) largest_product = product;
          }
          for (index_t d = 0; visible && d < value.extent(3); ++d) {
            const double size = std::fabs(value(b, h / group, j, d));
            if (size > largest_value_ && !std::isinf(size)) largest_value_ = size;
          }
        }
      }
    }
    const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(query.extent(3)));
    if (options.drop.p < 1) growth_ = 1 / (1 - options.drop.p);
    score_rounding_ = epsilon<Accumulate> * (std::fabs(scale) * largest_product + largest_term);
  }

  [[nodiscard]] reference::answer<wide> const& truth() const { return truth_; }

  /// `out` as written by a call, in its own element type.
  template <class T>
  testing::AssertionResult out(tensor_view<T, 4> const& found) const {
    const double largest = largest_value_ * growth_;
    double bound = std::fmax(2 * worst<T>(rival_.out, truth_.out), score_rounding_ * largest);
    bound += mantissa_bits<T>() < mantissa_bits<Accumulate>() ? ulp<T>(largest) / 2 : 4 * epsilon<Accumulate> * largest;
    return within(found, truth_.out, bound, "out");
  }
  template <class T>
  testing::AssertionResult lse(tensor_view<T, 3> const& found) const {
    double largest = 1;
    for (index_t i = 0; i < truth_.lse.size(); ++i) {
      const double size = std::fabs(static_cast<double>(truth_.lse.data()[i]));
      if (size > largest && !std::isinf(size)) largest = size;
    }
    const double bound = std::fmax(2 * worst<T>(rival_.lse, truth_.lse), score_rounding_);
    return within(found, truth_.lse, bound + 4 * epsilon<Accumulate> * largest, "lse");
  }
  template <class T>
  testing::AssertionResult weights(tensor_view<T, 4> const& found) const {
    double bound = std::fmax(2 * worst<T>(rival_.weights, truth_.weights), score_rounding_);
    bound += mantissa_bits<T>() < mantissa_bits<Accumulate>() ? ulp<T>(1.0) / 2 : 4 * epsilon<Accumulate>;
    return within(found, truth_.weights, bound, "weights");
  }

 private:
  template <std::size_t R, class View>
  static auto const& element(View const& view, index_t flat, index_t const (&extents)[R]) {
    index_t offset = 0;
    for (std::size_t axis = R; axis-- > 0;) {
      offset += flat % extents[axis] * view.stride(axis);
      flat /= extents[axis];
    }
    return view.data()[offset];
  }

  /// The largest error of the rival, its result rounded to T.
  template <class T, std::size_t R>
  static double worst(tensor<Accumulate, R> const& rival, tensor<wide, R> const& truth) {
    double largest = 0;
    for (index_t i = 0; i < truth.size(); ++i) {
      const double error = std::fabs(
          static_cast<double>(static_cast<wide>(rounded<T>(static_cast<double>(rival.data()[i]))) - truth.data()[i]));
      if (error > largest && !std::isinf(error)) largest = error;
    }
    return largest;
  }

  template <class T, std::size_t R>
  static testing::AssertionResult within(tensor_view<T, R> const& found, tensor<wide, R> const& truth, double bound,
                                         char const* name) {
    index_t extents[R];
    for (std::size_t axis = 0; axis < R; ++axis) {
      extents[axis] = truth.extent(axis);
      if (found.extent(axis) != truth.extent(axis)) return testing::AssertionFailure() << name << ": wrong shape";
    }
    double worst_error = 0;
    index_t worst_place = -1;
    for (index_t i = 0; i < truth.size(); ++i) {
      const double got = static_cast<double>(element(found, i, extents));
      const wide right = truth.data()[i];
      double error = 0;
      if (std::isnan(right) || std::isnan(got)) {
        error = std::isnan(right) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
      } else if (got != rounded<T>(static_cast<double>(right))) {
        error = std::fabs(static_cast<double>(static_cast<wide>(got) - right));
      }
      if (error > bound && error > worst_error) {
        worst_error = error;
        worst_place = i;
      }
    }
    if (worst_place < 0) return testing::AssertionSuccess();
    testing::AssertionResult failure = testing::AssertionFailure();
    std::string place;
    index_t flat = worst_place;
    for (std::size_t axis = R; axis-- > 0;) {
      place = std::to_string(flat % extents[axis]) + (place.empty() ? "" : ", ") + place;
      flat /= extents[axis];
    }
    return failure << name << "[" << place << "] is " << static_cast<double>(element(found, worst_place, extents))
                   << ", must be " << static_cast<double>(truth.data()[worst_place]) << ": error " << worst_error
                   << ", bound " << bound;
  }

  reference::answer<wide> truth_;
  reference::answer<Accumulate> rival_;
  double largest_value_ = 0;   // of what is visible
  double growth_ = 1;          // of what dropout leaves
  double score_rounding_ = 0;  // what one rounding of each product may do to a score
};

// In judge.cpp.
extern template class verdict<float>;
extern template class verdict<double>;

}  // namespace heed::test
