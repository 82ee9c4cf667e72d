// Whether a rule has a derivative: every score_fn in it must give one.
#pragma once

#include "heed/mask/combine.hpp"
#include "heed/score/custom.hpp"

namespace heed::detail {

template <class Rule>
inline constexpr bool differentiable_rule = true;
template <class Function, class Derivative>
inline constexpr bool differentiable_rule<score_fn<Function, Derivative>> = has_slope<Function, Derivative>;
template <class First, class Second>
inline constexpr bool differentiable_rule<both<First, Second>> =
    differentiable_rule<First>&& differentiable_rule<Second>;

}  // namespace heed::detail
