// score_fn: a stage of the user's own.
#pragma once

#include <type_traits>
#include <utility>

#include "heed/mask/strip.hpp"

namespace heed {
namespace detail {

struct no_derivative {};

/// Whether f(score, position) gives a number, for a score of type Real, where f is const.
template <class Function, class Real>
[[nodiscard]] consteval bool maps_scores() {
  if constexpr (std::is_invocable_v<Function const&, Real, position const&>) {
    return std::is_arithmetic_v<std::remove_cvref_t<std::invoke_result_t<Function const&, Real, position const&>>>;
  } else {
    return false;
  }
}

/// Stands in until heed::dual is there to answer.
template <class Function, class Derivative>
inline constexpr bool has_slope = true;

}  // namespace detail

/// score = f(score, position), for each score of a block that some row may see.
///
/// f: anything that is called as `f(score, at)` and returns a number, most simply `[](auto score, heed::position at)`.
///   `score` comes in the accumulate type (float, or double where query is double). Plain arithmetic and heed::exp,
///   log, tanh, abs, min, max, clamp, select become vectors; a function of another library does not, and a `?:` not
///   always (heed::select does). AVX2 turns index_t into float one at a time: there, f that computes with positions
///   costs more.
/// Called: with rows in [0, Sq) and keys in [0, Skv), perhaps for scores that a mask hides (whose value may be
/// anything,
///   NaN too), any number of times, from several threads at once, so const. What it throws comes back from the call.
/// A functor that can be copied byte by byte is copied into the kernel; any other is used where it is. A temporary is
///   held by the rule. What it points to must outlive the call.
/// Hidden: a score of -inf counts as hidden, unless a later stage changes it.
/// `score_fn(f, derivative)`: derivative(score, at) is d f / d score at the score that f is given. Attention itself
/// does
///   not call it; a backward pass does.
/// Cost: at most 10 % of a call without transcendentals, 35 % with one heed::tanh.
/// Example: `score_fn([](auto s, position at) { return heed::select(at.key < 4, s, s - 1); })`
template <class Function, class Derivative = detail::no_derivative>
class score_fn {
  static_assert(detail::maps_scores<Function, float>() && detail::maps_scores<Function, double>(),
                "heed::score_fn: f must be callable, as a const object, as f(score, heed::position) with a score of "
                "float and of double, and must return a number; the simplest is a generic lambda: "
                "[](auto score, heed::position at) { return score; }");
  static_assert(std::is_same_v<Derivative, detail::no_derivative> ||
                    (detail::maps_scores<Derivative, float>() && detail::maps_scores<Derivative, double>()),
                "heed::score_fn: the derivative must be callable, as a const object, as derivative(score, "
                "heed::position) with a score of float and of double, and must return a number");

 public:
  HEED_FN constexpr explicit score_fn(Function f) : function_(std::move(f)) {}
  HEED_FN constexpr score_fn(Function f, Derivative derivative)
      : function_(std::move(f)), derivative_(std::move(derivative)) {}

  static constexpr bool is_stage = true;

// An f of float rounds the scores of a double call, as it says itself.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
  template <class Real>
  [[nodiscard]] HEED_FN constexpr Real adjusted(Real score, position const& at) const {
    return static_cast<Real>(function_(score, at));
  }
#pragma GCC diagnostic pop
  [[nodiscard]] HEED_FN constexpr Function const& function() const noexcept { return function_; }
  [[nodiscard]] HEED_FN constexpr Derivative const& derivative() const noexcept { return derivative_; }

 private:
  Function function_;
  Derivative derivative_{};
};

template <class Function>
score_fn(Function) -> score_fn<Function>;
template <class Function, class Derivative>
score_fn(Function, Derivative) -> score_fn<Function, Derivative>;

}  // namespace heed
