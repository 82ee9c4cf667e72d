// Bit for bit comparison of tensors, however they lie in memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "heed/view/tensor.hpp"

namespace heed::test {

namespace bits_detail {

template <class T>
bool same(T const& one, T const& other) {
  return std::memcmp(&one, &other, sizeof(T)) == 0;
}

}  // namespace bits_detail

template <class A, class B>
testing::AssertionResult same_bits(A const& one, B const& other) {
  constexpr std::size_t rank = A::rank;
  static_assert(rank == B::rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (one.extent(axis) != other.extent(axis)) {
      return testing::AssertionFailure() << "extent " << axis << ": " << one.extent(axis) << " and "
                                         << other.extent(axis);
    }
  }
  index_t indices[4] = {};
  const auto at = [&](auto const& view) -> auto const& {
    index_t offset = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) offset += indices[axis] * view.stride(axis);
    return view.data()[offset];
  };
  for (index_t left = one.size(); left > 0; --left) {
    if (!bits_detail::same(at(one), at(other))) {
      testing::AssertionResult failure = testing::AssertionFailure();
      failure << "[";
      for (std::size_t axis = 0; axis < rank; ++axis) failure << (axis ? ", " : "") << indices[axis];
      return failure << "]: " << static_cast<double>(at(one)) << " and " << static_cast<double>(at(other));
    }
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++indices[axis] < one.extent(axis)) break;
      indices[axis] = 0;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace heed::test
