// How wrong a gradient may be: three times what a plain loop in the accumulate type is wrong that keeps out and lse
// between its passes, plus 8 units of rounding of the gradient's own scale.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heed/reference/backward.hpp"
#include "support/judge.hpp"

namespace heed::test {

/// The inputs of a call in double, already rounded to its types; what is hidden in them is 0.
struct exact_inputs {
  tensor<double, 4> const &query, &key, &value, &d_out;
  tensor<double, 3> const& d_lse;  // zeros where the call is given none
};

/// Judges the gradients of a call whose elements are T.
///
/// The scale of a gradient is what its terms add up to without their signs: sums that cancel are no lottery then. For
/// `any_size` it also covers what one rounding of each product does to the weights; `plain_loop` takes the accuracy
/// rule to the letter, with the largest gradient of a tensor as its scale.
template <class T>
class gradient_verdict {
 public:
  using narrow = accumulate_of<T>;
  using wide = judge_of<narrow>;

  template <class Rule>
  gradient_verdict(exact_inputs const& in, Rule const& rule, attention_options const& options,
                   strictness how = strictness::any_size)
      : how_(how) {
    const tensor<narrow, 4> query = converted<narrow>(in.query);
    const auto solved = [&]<class Real, class Saved>(Real, Saved*, auto const& key, auto const& value,
                                                     auto const& d_out, auto const& d_lse) {
      return reference::solve_backward<Real, Saved>(query, key, value, d_out, rule, options, d_lse);
    };
    truth_ = solved(wide{}, static_cast<void*>(nullptr), in.key, in.value, in.d_out, in.d_lse);
    rival_ = solved(narrow{}, static_cast<T*>(nullptr), converted<narrow>(in.key), converted<narrow>(in.value),
                    converted<narrow>(in.d_out), in.d_lse);
    if (how == strictness::any_size) find_scales(in, rule, options, solved);
  }

  [[nodiscard]] reference::gradient_answer<wide> const& truth() const { return truth_; }

  template <class Found>
  testing::AssertionResult operator()(Found const& found) const {
    testing::AssertionResult result = testing::AssertionSuccess();
    const auto also = [&](testing::AssertionResult const& one) {
      if (result && !one) result = one;
    };
    also(within<T>("dq", found.dq, rival_.dq, truth_.dq, query_scale_));
    also(within<T>("dk", found.dk, rival_.dk, truth_.dk, key_scale_));
    also(within<T>("dv", found.dv, rival_.dv, truth_.dv, value_scale_));
    // The judge's rule may have more stages, behind those of the call.
    for (std::size_t i = 0; i < found.biases.size(); ++i) {
      also(within<narrow>("bias", found.biases[i], rival_.biases[i], truth_.biases[i], largest_of(scales_.biases, i)));
    }
    for (std::size_t i = 0; i < found.tables.size(); ++i) {
      also(within<narrow>("table", found.tables[i], rival_.tables[i], truth_.tables[i], largest_of(scales_.tables, i)));
    }
    for (std::size_t i = 0; i < found.slopes.size(); ++i) {
      also(
          within<narrow>("slopes", found.slopes[i], rival_.slopes[i], truth_.slopes[i], largest_of(scales_.slopes, i)));
    }
    for (std::size_t i = 0; i < found.sinks.size(); ++i) {
      also(within<narrow>("sink", found.sinks[i], rival_.sinks[i], truth_.sinks[i], largest_of(scales_.sinks, i)));
    }
    return result;
  }

 private:
  template <class Numbers>
  static double largest(Numbers const& numbers) {
    double most = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(numbers.size()); ++i) {
      const double size = std::fabs(static_cast<double>(numbers.data()[i]));
      if (size > most && !std::isinf(size)) most = size;
    }
    return most;
  }
  /// Of the strict judge's scales there are none.
  template <class List>
  static double largest_of(List const& lists, std::size_t which) {
    return which < lists.size() ? largest(lists[which]) : 0.0;
  }

  /// A loss on lse alone gives every score its weight times d_lse: with what a row's scores can weigh for d_lse, the
  /// gradients of a bias, of a table and of slopes are sums without signs.
  template <class Rule, class Solver>
  void find_scales(exact_inputs const& in, Rule const& rule, attention_options const& options, Solver const& solved) {
    const double growth = options.drop.p < 1 ? 1 / (1 - options.drop.p) : 1;
    const index_t batch_size = in.query.extent(0), heads = in.query.extent(1), rows = in.query.extent(2),
                  keys = in.key.extent(2), group = in.key.extent(1) > 0 ? heads / in.key.extent(1) : 1;
    const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(in.query.extent(3)));
    const auto width = [](tensor<double, 4> const& x, index_t b, index_t h, index_t row) {
      double most = 0;
      for (index_t d = 0; d < x.extent(3); ++d) most = std::fmax(most, std::fabs(x(b, h, row, d)));
      return most;
    };
    tensor<double, 3> reach({batch_size, heads, rows});
    double largest_product = 0, largest_term = 0, query_width = 0, key_width = 0, longest_reach = 0;
    for (index_t b = 0; b < batch_size; ++b) {
      const auto exists = reference::limits_of(rule, options.anchor, b, rows, keys);
      for (index_t h = 0; h < heads; ++h) {
        for (index_t i = 0; i < exists.query_len; ++i) {
          double most = 0;
          for (index_t j = exists.key_begin; j < exists.key_end; ++j) {
            const position at{b, h, i, j, exists.offset};
            if (!reference::is_visible(rule, at, exists)) continue;
            reference::detail::staged<double> terms{0};
            reference::adjust<narrow>(rule, at, terms);
            if (terms.is_hidden) continue;
            if (std::fabs(terms.score) < 1e6) largest_term = std::fmax(largest_term, std::fabs(terms.score));
            double product = 0, dot = 0;
            for (index_t d = 0; d < in.query.extent(3); ++d) {
              product += std::fabs(in.query(b, h, i, d) * in.key(b, h / group, j, d));
            }
            for (index_t d = 0; d < in.value.extent(3); ++d) {
              dot += std::fabs(in.d_out(b, h, i, d) * in.value(b, h / group, j, d));
            }
            largest_product = std::fmax(largest_product, product);
            most = std::fmax(most, dot);
            query_width = std::fmax(query_width, width(in.query, b, h, i));
            key_width = std::fmax(key_width, width(in.key, b, h / group, j));
          }
          reach(b, h, i) = most * growth + std::fabs(in.d_lse(b, h, i));
          longest_reach = std::fmax(longest_reach, reach(b, h, i));
        }
      }
    }
    // What a score may be off, and a cap's slope with it.
    const double bend = options.softcap && *options.softcap > 1e-3 && *options.softcap < 1 ? 1 / *options.softcap : 1;
    rounding_ = epsilon<narrow> * (std::fabs(scale) * largest_product + largest_term) * bend;
    if (mantissa_bits<T>() < mantissa_bits<narrow>()) rounding_ += ulp<T>(0.5);  // of out, between the passes

    // The sums over the rows, of each key, as the gradient of one more bias.
    const tensor<double, 4> no_terms({batch_size, heads, 1, keys}),
        nothing({batch_size, heads, rows, in.value.extent(3)});
    const auto sums = reference::solve_backward<double>(converted<narrow>(in.query), in.key, in.value, nothing,
                                                        rule & bias(no_terms), options, reach);
    double column = 0;
    for (index_t b = 0; b < batch_size; ++b) {
      for (index_t kv_head = 0; kv_head < in.key.extent(1); ++kv_head) {
        for (index_t j = 0; j < keys; ++j) {
          double sum = 0;
          for (index_t g = 0; g < group; ++g) sum += std::fabs(sums.biases.back()(b, kv_head * group + g, 0, j));
          column = std::fmax(column, sum);
        }
      }
    }
    query_scale_ = std::fabs(scale) * longest_reach * key_width;
    key_scale_ = std::fabs(scale) * column * query_width;
    scales_ = static_cast<reference::stage_gradients<double> const&>(sums);
    scales_.biases.pop_back();  // that one
    tensor<double, 4> d_out_sizes = in.d_out;
    for (index_t i = 0; i < d_out_sizes.size(); ++i) d_out_sizes.data()[i] = std::fabs(d_out_sizes.data()[i]);
    value_scale_ = largest(solved(double{}, static_cast<void*>(nullptr), in.key, in.value, d_out_sizes, nullptr).dv);
  }

  /// `T2` is what the result is stored in.
  template <class T2, class Found, class Rival, class Truth>
  testing::AssertionResult within(char const* name, Found const& found, Rival const& rival, Truth const& truth,
                                  double scale) const {
    const std::size_t count = static_cast<std::size_t>(truth.size());
    if (static_cast<std::size_t>(found.size()) != count) return testing::AssertionFailure() << name << ": wrong shape";
    double rival_error = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double error = std::fabs(
          static_cast<double>(static_cast<wide>(rounded<T2>(static_cast<double>(rival.data()[i]))) - truth.data()[i]));
      if (error > rival_error && !std::isinf(error)) rival_error = error;
    }
    const double most = largest(truth), own = how_ == strictness::plain_loop ? most : scale;
    double bound = 3 * rival_error + (8 * epsilon<narrow> + rounding_) * own;
    if (mantissa_bits<T2>() < mantissa_bits<narrow>()) bound += ulp<T2>(most) / 2;
    double worst = 0;
    std::size_t place = count;
    for (std::size_t i = 0; i < count; ++i) {
      const double got = static_cast<double>(found.data()[i]), right = static_cast<double>(truth.data()[i]);
      double error = std::fabs(static_cast<double>(static_cast<wide>(got) - truth.data()[i]));
      if (std::isnan(right) && std::isnan(got)) error = 0;
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
      if (error > bound && error > worst) worst = error, place = i;
    }
    if (place == count) return testing::AssertionSuccess();
    return testing::AssertionFailure() << name << "[" << place << "] is " << static_cast<double>(found.data()[place])
                                       << ", must be " << static_cast<double>(truth.data()[place]) << ": error "
                                       << worst << ", bound " << bound << " (a plain loop: " << rival_error << ")";
  }

  strictness how_;
  reference::gradient_answer<wide> truth_;
  reference::gradient_answer<narrow> rival_;
  reference::stage_gradients<double> scales_;
  double query_scale_ = 0, key_scale_ = 0, value_scale_ = 0;
  double rounding_ = 0;  // what one rounding of each product may do to a score
};

}  // namespace heed::test
