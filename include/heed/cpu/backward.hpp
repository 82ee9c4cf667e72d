// The backward pass on the CPU.
#pragma once

#include "heed/view/backward_problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// Runs a checked backward pass. Real is the accumulate type; rule is the caller's, not yet prepared.
template <class Real, class Rule>
void backward(backward_problem const& pass, Rule const& rule);

}  // namespace HEED_ABI
}  // namespace heed::detail
