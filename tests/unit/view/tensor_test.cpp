// Views and tensors: strides of every sign, conversions, ownership.
#include "heed/view/tensor.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "heed/base/element.hpp"

namespace {

using namespace heed;

TEST(TensorView, RowMajorAndAnyIntegerExtents) {
  float numbers[24];
  for (int i = 0; i < 24; ++i) numbers[i] = static_cast<float>(i);
  const tensor_view<float, 4> view(numbers, {1, 2u, std::size_t{3}, short{4}});
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(view.stride(0), 24);
  EXPECT_EQ(view.stride(1), 12);
  EXPECT_EQ(view.stride(2), 4);
  EXPECT_EQ(view.stride(3), 1);
  EXPECT_EQ(view(0, 1, 2u, std::size_t{3}), 23);
  view(0, 0, 0, 1) = 100;
  EXPECT_EQ(numbers[1], 100);
}

TEST(TensorView, StridesOfEverySign) {
  int numbers[] = {0, 1, 2, 3, 4, 5};
  const tensor_view<int, 2> transposed(numbers, {3, 2}, {1, 3});
  EXPECT_EQ(transposed(2, 1), 5);
  const tensor_view<int, 2> backwards(numbers + 5, {2, 3}, {-3, -1});
  EXPECT_EQ(backwards(0, 0), 5);
  EXPECT_EQ(backwards(1, 2), 0);
  const tensor_view<int, 2> repeated(numbers, {1000, 3}, {0, 2});
  EXPECT_EQ(repeated(999, 2), 4);
  EXPECT_EQ(repeated.size(), 3000);
}

TEST(TensorView, NullAndConst) {
  const tensor_view<float, 3> null;
  EXPECT_EQ(null.data(), nullptr);
  EXPECT_EQ(null.size(), 0);
  float numbers[6] = {};
  const tensor_view<float, 2> view(numbers, {2, 3}, {3, 1});
  const tensor_view<float const, 2> reading = view;
  EXPECT_EQ(reading.stride(0), 3);
  static_assert(std::is_convertible_v<tensor_view<float, 2>, tensor_view<float const, 2>>);
  static_assert(!std::is_convertible_v<tensor_view<float const, 2>, tensor_view<float, 2>>);
  static_assert(std::is_trivially_copyable_v<tensor_view<float, 4>>);
}

TEST(TensorView, SizesThatDoNotFitSaturate) {
  float one = 0;
  const index_t huge = index_t{1} << 40;
  EXPECT_EQ((tensor_view<float, 4>(&one, {huge, huge, 1, 1}).size()), INT64_MAX);
  EXPECT_EQ((tensor_view<float, 4>(&one, {huge, huge, 0, 1}).size()), 0);
  EXPECT_EQ((tensor_view<float, 3>(&one, {huge, huge, huge}).stride(0)), INT64_MAX);
}

TEST(Tensor, OwnsZeroFilledMemory) {
  tensor<double, 3> numbers({2, 3, 4});
  EXPECT_EQ(numbers.size(), 24);
  for (index_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers.data()[i], 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers.data()) % 64, 0u);
  numbers(1, 2, 3) = 7;
  EXPECT_EQ(numbers.data()[23], 7);
  const tensor<half, 1> halves({3});
  EXPECT_EQ(halves(2).bits, 0);
  EXPECT_EQ((tensor<float, 2>({0, 5}).size()), 0);
  EXPECT_EQ((tensor<float, 2>().size()), 0);
}

TEST(Tensor, CopiesDeeplyAndMovesCheaply) {
  tensor<int, 2> first({2, 2});
  first(1, 1) = 5;
  tensor<int, 2> copy = first;
  copy(1, 1) = 6;
  EXPECT_EQ(first(1, 1), 5);
  int* const place = copy.data();
  tensor<int, 2> moved = std::move(copy);
  EXPECT_EQ(moved.data(), place);
  EXPECT_EQ(copy.size(), 0);  // NOLINT(bugprone-use-after-move): a moved-from tensor is empty
  first = moved;
  EXPECT_EQ(first(1, 1), 6);
  EXPECT_NE(first.data(), moved.data());
  first = *&first;
  EXPECT_EQ(first(1, 1), 6);
  moved = tensor<int, 2>({1, 3});
  EXPECT_EQ(moved.extent(1), 3);
}

float corner(tensor_view<float const, 2> view) { return view(0, 0); }

TEST(Tensor, IsAViewWhereverOneIsAskedFor) {
  tensor<float, 2> numbers({1, 1});
  numbers(0, 0) = 3;
  EXPECT_EQ(corner(numbers), 3);
  EXPECT_EQ(corner(std::as_const(numbers)), 3);
  EXPECT_EQ(corner(numbers.view()), 3);
  tensor_view<float, 2> writable = numbers;
  writable(0, 0) = 4;
  EXPECT_EQ(numbers(0, 0), 4);
  static_assert(!std::is_convertible_v<tensor<float, 2> const&, tensor_view<float, 2>>);
}

}  // namespace
