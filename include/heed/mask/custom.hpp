// mask_fn: a rule of the caller's own, as a functor.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "heed/mask/mask.hpp"

namespace heed {
namespace detail {

/// A functor that cannot be copied byte by byte and belongs to the caller.
template <class Functor>
struct functor_reference {
  Functor const* functor;

  template <class Argument>
  HEED_FN constexpr decltype(auto) operator()(Argument const& argument) const {
    return (*functor)(argument);
  }
};

/// How a functor is kept: by value where it can be copied byte by byte or is given away, otherwise where it is.
template <class Functor>
using kept_functor =
    std::conditional_t<std::is_trivially_copyable_v<std::decay_t<Functor>> || !std::is_lvalue_reference_v<Functor>,
                       std::decay_t<Functor>, functor_reference<std::remove_cvref_t<Functor>>>;
template <class Functor>
[[nodiscard]] HEED_FN constexpr kept_functor<Functor> keep_functor(std::remove_reference_t<Functor>& functor) {
  if constexpr (std::is_same_v<kept_functor<Functor>, functor_reference<std::remove_cvref_t<Functor>>>) {
    return {&functor};
  } else {
    return std::forward<Functor>(functor);
  }
}

/// What an if may ask: numbers with a fraction are no answer.
template <class Answer>
inline constexpr bool is_yes_or_no = std::is_convertible_v<Answer, bool> && !std::is_floating_point_v<Answer>;
template <class Functor>
[[nodiscard]] consteval bool answers_for_positions() {
  if constexpr (std::is_invocable_v<std::decay_t<Functor> const&, position const&>) {
    return is_yes_or_no<std::remove_cvref_t<std::invoke_result_t<std::decay_t<Functor> const&, position const&>>>;
  }
  return false;
}
template <class Functor>
[[nodiscard]] consteval bool answers_for_blocks() {
  if constexpr (std::is_invocable_v<std::decay_t<Functor> const&, block const&>) {
    return std::is_same_v<std::remove_cvref_t<std::invoke_result_t<std::decay_t<Functor> const&, block const&>>, cover>;
  }
  return false;
}

/// The answer for a block where the caller has none: every score is asked about.
struct always_partial {
  [[nodiscard]] HEED_FN constexpr cover operator()(block const&) const noexcept { return cover::partial; }
};

}  // namespace detail

/// What mask_fn makes.
template <class Functor, class Covers = detail::always_partial>
struct custom_mask {
  Functor functor;
  Covers cover_of;

  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const { return static_cast<bool>(functor(at)); }
  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const { return cover_of(area); }
};

/// Score (i, j) is visible iff `f(position)` is true: `mask_fn([=](position at) { return at.key <= at.query; })`.
///
/// f: callable where it is const, from several threads at once, any number of times, with 0 <= query < Sq and
///   0 <= key < Skv, also for keys that other masks hide. A trivially copyable one (a lambda that captures views,
///   pointers and numbers) is copied into the kernel and vectorised with it; another is used where it is, so that it
///   must outlive the call; a temporary is moved in.
/// covers: optional, `covers(block) -> cover`, what is known of a rectangle of scores without looking at each: hidden
///   ones are then never computed, and f is not asked about visible ones. `cover::partial` is always a right answer.
/// Throws: what f throws comes back from the call, and then out is undefined. Cost: that of f, for each score that it
/// is
///   asked about.
/// Example: a causal rule by hand is `[](position at) { return at.key <= at.query + at.offset; }`.
template <class Functor>
[[nodiscard]] HEED_FN constexpr auto mask_fn(Functor&& f) {
  static_assert(
      detail::answers_for_positions<Functor>(),
      "heed::mask_fn: f must be callable as f(heed::position) -> bool (true = attend), also where f is const: "
      "several threads call it at once");
  return custom_mask<detail::kept_functor<Functor>>{detail::keep_functor<Functor>(f), {}};
}
template <class Functor, class Covers>
[[nodiscard]] HEED_FN constexpr auto mask_fn(Functor&& f, Covers&& covers) {
  static_assert(
      detail::answers_for_positions<Functor>(),
      "heed::mask_fn: f must be callable as f(heed::position) -> bool (true = attend), also where f is const: "
      "several threads call it at once");
  static_assert(detail::answers_for_blocks<Covers>(),
                "heed::mask_fn: covers must be callable as covers(heed::block) -> heed::cover, also where it is const: "
                "none, partial (always right) or full");
  return custom_mask<detail::kept_functor<Functor>, detail::kept_functor<Covers>>{detail::keep_functor<Functor>(f),
                                                                                  detail::keep_functor<Covers>(covers)};
}

}  // namespace heed
