// score_fn: a stage of the user's own.
#pragma once

#include <type_traits>
#include <utility>

#include "heed/mask/strip.hpp"
#include "heed/score/dual.hpp"

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

/// Whether f is called with a dual, and gives one or a constant.
template <class Function, class Real>
[[nodiscard]] consteval bool carries_slopes() {
  if constexpr (std::is_invocable_v<Function const&, dual<Real>, position const&>) {
    using result = std::remove_cvref_t<std::invoke_result_t<Function const&, dual<Real>, position const&>>;
    return std::is_same_v<result, dual<Real>> || std::is_arithmetic_v<result>;
  } else {
    return false;
  }
}
template <class Function, class Derivative>
[[nodiscard]] consteval bool is_differentiable() {
  if constexpr (!std::is_same_v<Derivative, no_derivative>) {
    return true;
  } else if constexpr (carries_slopes<Function, float>()) {  // what it cannot do with both is said once
    return carries_slopes<Function, double>();
  } else {
    return false;
  }
}

/// Whether there is a derivative, the caller's or the library's own. It compiles f with duals: to be asked only where a
/// derivative is needed, since a generic lambda that does not take them is then an error.
template <class Function, class Derivative>
inline constexpr bool has_slope = is_differentiable<Function, Derivative>();

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
/// Derivatives, which only a backward pass asks for: a generic f is called with heed::dual<float> or
///   heed::dual<double> as its score, and so differentiated as it is computed (score/dual.hpp has the conventions). An
///   f of float or double, or one that calls functions of another library, needs `score_fn(f, derivative)`:
///   derivative(score, at) is d f / d score at the score that f is given.
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
  /// d f / d score.
  template <class Real>
  [[nodiscard]] HEED_FN constexpr Real slope(Real score, position const& at) const {
    static_assert(detail::has_slope<Function, Derivative>,
                  "heed::score_fn: f cannot be differentiated, since it does not take a heed::dual as its score, or "
                  "gives neither a dual nor a number; make it a generic lambda, [](auto score, heed::position at), of "
                  "arithmetic and heed's math functions (heed::exp, log, tanh, abs, min, max, clamp, select), or give "
                  "the derivative: score_fn(f, derivative)");
    if constexpr (!std::is_same_v<Derivative, detail::no_derivative>) {
      return static_cast<Real>(derivative_(score, at));
    } else if constexpr (detail::has_slope<Function, Derivative>) {
      return detail::slope_of<Real>(function_(dual<Real>(score, Real(1)), at));
    } else {
      return score;
    }
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
