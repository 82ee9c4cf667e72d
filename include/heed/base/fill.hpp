// fill: a number, many times over.
#pragma once

#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// By copies of what is filled already: the compilers make stores of single numbers of a loop in baseline code.
template <class Real>
void fill(Real* to, index_t count, Real value) noexcept {
  index_t done = lesser(count, 32);
  for (index_t i = 0; i < done; ++i) to[i] = value;
  while (done < count) {
    const index_t more = lesser(done, count - done);
    __builtin_memcpy(to + done, to, static_cast<std::size_t>(more) * sizeof(Real));
    done += more;
  }
}

}  // namespace HEED_ABI
}  // namespace heed::detail
