// tensor_view<Element, Rank>: pointer, extents, strides. Nothing else moves between the caller and a kernel.
#pragma once

#include <cstddef>
#include <type_traits>

#include "heed/view/axes.hpp"

namespace heed {

/// A view of R axes over memory that somebody else owns.
///
/// Shapes: R from 1 to 4 where a call takes it. Strides are in elements and may have any value, also 0 and negative;
/// `data` is the address of the element with all indices 0. Null data is allowed iff the view is empty.
/// Copying is cheap and shallow; a view of T converts to a view of T const. Indices are not checked.
template <class Element, std::size_t Rank>
class tensor_view {
  static_assert(Rank >= 1 && Rank <= 4, "heed::tensor_view: ranks 1 to 4 are supported; merge or slice axes first");

 public:
  using element_type = Element;
  using value_type = std::remove_cv_t<Element>;
  static constexpr std::size_t rank = Rank;

  /// The null view: no data, all extents 0.
  HEED_FN constexpr tensor_view() noexcept {}

  /// Row-major: the last axis is contiguous.
  HEED_FN constexpr tensor_view(Element* data, axes<Rank> extents) noexcept : data_(data) {
    index_t stride = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      extents_[axis] = extents[axis];
      strides_[axis] = stride;
      stride = detail::saturating_mul(stride, detail::greater(extents[axis], 1));
    }
  }

  /// Any strides, in elements.
  HEED_FN constexpr tensor_view(Element* data, axes<Rank> extents, axes<Rank> strides) noexcept : data_(data) {
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      extents_[axis] = extents[axis];
      strides_[axis] = strides[axis];
    }
  }

  /// A view of T is a view of T const.
  template <class Mutable>
  requires(std::is_same_v<Mutable const, Element> && !std::is_same_v<Mutable, Element>) HEED_FN
      constexpr tensor_view(tensor_view<Mutable, Rank> const& other) noexcept
      : data_(other.data()) {  // NOLINT
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      extents_[axis] = other.extent(axis);
      strides_[axis] = other.stride(axis);
    }
  }

  [[nodiscard]] HEED_FN constexpr Element* data() const noexcept { return data_; }
  [[nodiscard]] HEED_FN constexpr index_t extent(std::size_t axis) const noexcept { return extents_[axis]; }
  [[nodiscard]] HEED_FN constexpr index_t stride(std::size_t axis) const noexcept { return strides_[axis]; }

  /// The number of elements; the largest index_t where 64 bits do not hold it.
  [[nodiscard]] HEED_FN constexpr index_t size() const noexcept {
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      if (extents_[axis] <= 0) return 0;
    }
    index_t product = 1;
    for (std::size_t axis = 0; axis < Rank; ++axis) product = detail::saturating_mul(product, extents_[axis]);
    return product;
  }

  /// The element at one index for each axis, unchecked.
  template <class... Integer>
  requires(sizeof...(Integer) == Rank && (std::is_integral_v<Integer> && ...)) [[nodiscard]] HEED_FN constexpr Element&
  operator()(Integer... indices) const noexcept {
    index_t offset = 0;
    std::size_t axis = 0;
    ((offset += static_cast<index_t>(indices) * strides_[axis++]), ...);
    return data_[offset];
  }

 private:
  Element* data_ = nullptr;
  index_t extents_[Rank] = {};
  index_t strides_[Rank] = {};
};

namespace detail {

template <class Element>
inline constexpr bool is_tensor_view = false;
template <class Element, std::size_t Rank>
inline constexpr bool is_tensor_view<tensor_view<Element, Rank>> = true;

}  // namespace detail
}  // namespace heed
