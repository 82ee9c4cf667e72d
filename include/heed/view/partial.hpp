// partial(out, lse): the result of attention over some of the keys.
#pragma once

#include "heed/view/operand.hpp"

namespace heed {

/// One input of `merge`, made by `partial`. Holds views only: the memory must outlive the call.
struct partial_result {
  detail::operand out;
  detail::operand lse;
};

/// out [B, H, S, D], [B, S, D] or [S, D] and the lse [B, H, S], [B, S] or [S] that the same call gave, of any float
/// types and strides. A row with an lse of -inf saw no key, whatever its out holds.
template <class Out, class Lse>
[[nodiscard]] HEED_INLINE partial_result partial(Out const& out, Lse const& lse) noexcept {
  static_assert(detail::tensor_like<Out> && detail::tensor_like<Lse>,
                "heed::partial: out and lse must each be a heed::tensor or a heed::tensor_view; wrap other memory in "
                "heed::tensor_view (for Eigen: heed::as_view)");
  static_assert(floating_element<typename Out::value_type> && floating_element<typename Lse::value_type>,
                "heed::partial: out and lse must hold half, bfloat16, float or double; convert their elements first");
  return {detail::operand_of(detail::view_of_tensor(out)), detail::operand_of(detail::view_of_tensor(lse), false)};
}

}  // namespace heed
