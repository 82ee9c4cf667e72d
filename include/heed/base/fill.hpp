// fill: a number, many times over.
#pragma once

#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// In vectors of 16 bytes: the compilers make stores of single numbers of a loop in baseline code.
template <class Real>
void fill(Real* to, index_t count, Real value) noexcept {
  constexpr index_t lanes = 16 / static_cast<index_t>(sizeof(Real));
  typedef Real vector __attribute__((vector_size(16)));
  const vector values = value + vector{};
  index_t done = 0;
  for (; done + lanes <= count; done += lanes) __builtin_memcpy(to + done, &values, sizeof values);
  for (; done < count; ++done) to[done] = value;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
