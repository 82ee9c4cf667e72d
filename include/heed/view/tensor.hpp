// tensor<Element, Rank>: a view that owns its memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "heed/base/error.hpp"
#include "heed/view/tensor_view.hpp"

namespace heed {
namespace detail {
inline namespace HEED_ABI {

/// Memory for `extents`, filled with zeros; null where there are no elements.
template <class Element, std::size_t Rank>
[[nodiscard]] Element* allocate_zeros(axes<Rank> const& extents) {
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    if (extents[axis] < 0) {
      raise(errc::negative_extent, "heed::tensor: extent " + std::to_string(axis) + " is " +
                                       std::to_string(extents[axis]) + "; extents must be 0 or more");
    }
  }
  const index_t size = tensor_view<Element, Rank>(nullptr, extents).size();
  if (size > INT64_MAX / 2 / static_cast<index_t>(sizeof(Element))) {
    raise(errc::size_overflow, "heed::tensor: the extents multiply to more bytes than 64 bits can count");
  }
  if (size == 0) return nullptr;
  Element* const elements =
      static_cast<Element*>(::operator new (static_cast<std::size_t>(size) * sizeof(Element), std::align_val_t{64}));
  for (index_t i = 0; i < size; ++i) elements[i] = Element{};
  return elements;
}

template <class Element>
[[nodiscard]] Element* allocate_copy(Element const* from, index_t size) {
  if (size == 0) return nullptr;
  Element* const elements =
      static_cast<Element*>(::operator new (static_cast<std::size_t>(size) * sizeof(Element), std::align_val_t{64}));
  for (index_t i = 0; i < size; ++i) elements[i] = from[i];
  return elements;
}

}  // namespace HEED_ABI
}  // namespace detail

/// Owns a row-major block of elements: filled with zeros, copied deeply, moved cheaply (a moved-from tensor is empty).
///
/// Converts to a view wherever one is asked for. Memory is aligned to 64 bytes.
/// Throws: heed::error (negative_extent, size_overflow), std::bad_alloc.
template <class Element, std::size_t Rank>
class tensor {
  static_assert(
      std::is_trivially_copyable_v<Element> && !std::is_const_v<Element>,
      "heed::tensor: the element type must be a plain number; for read-only data use tensor_view<T const, R>");

 public:
  using element_type = Element;
  using value_type = Element;
  static constexpr std::size_t rank = Rank;

  HEED_INLINE tensor() noexcept = default;
  HEED_INLINE explicit tensor(axes<Rank> extents) : view_(detail::allocate_zeros<Element>(extents), extents) {}
  // `tensor<float, 1>({5})`: without this overload GCC cannot tell the extent from a tensor made of it.
  template <std::integral Integer>
  requires(Rank == 1) HEED_INLINE explicit tensor(Integer const (&extents)[Rank]) : tensor(axes<Rank>(extents[0])) {}
  HEED_INLINE tensor(tensor const& other)
      : view_(detail::allocate_copy(other.data(), other.size()), extents_of(other, std::make_index_sequence<Rank>{})) {}
  HEED_INLINE tensor(tensor&& other) noexcept : view_(other.view_) { other.view_ = tensor_view<Element, Rank>(); }
  HEED_INLINE tensor& operator=(tensor const& other) {
    if (this != &other) {
      tensor fresh(other);
      swap(fresh);
    }
    return *this;
  }
  HEED_INLINE tensor& operator=(tensor&& other) noexcept {
    tensor fresh(static_cast<tensor&&>(other));
    swap(fresh);
    return *this;
  }
  HEED_INLINE ~tensor() {
    if (view_.data() != nullptr) ::operator delete (static_cast<void*>(view_.data()), std::align_val_t{64});
  }

  [[nodiscard]] HEED_INLINE Element* data() noexcept { return view_.data(); }
  [[nodiscard]] HEED_INLINE Element const* data() const noexcept { return view_.data(); }
  [[nodiscard]] HEED_INLINE index_t extent(std::size_t axis) const noexcept { return view_.extent(axis); }
  [[nodiscard]] HEED_INLINE index_t stride(std::size_t axis) const noexcept { return view_.stride(axis); }
  [[nodiscard]] HEED_INLINE index_t size() const noexcept { return view_.size(); }

  template <class... Integer>
  requires(sizeof...(Integer) == Rank && (std::is_integral_v<Integer> && ...)) [[nodiscard]] HEED_INLINE Element&
  operator()(Integer... indices) noexcept {
    return view_(indices...);
  }
  template <class... Integer>
  requires(sizeof...(Integer) == Rank && (std::is_integral_v<Integer> && ...)) [[nodiscard]] HEED_INLINE Element const&
  operator()(Integer... indices) const noexcept {
    return view_(indices...);
  }

  [[nodiscard]] HEED_INLINE tensor_view<Element, Rank> view() noexcept { return view_; }
  [[nodiscard]] HEED_INLINE tensor_view<Element const, Rank> view() const noexcept { return view_; }
  HEED_INLINE operator tensor_view<Element, Rank>() & noexcept { return view_; }              // NOLINT
  HEED_INLINE operator tensor_view<Element const, Rank>() const& noexcept { return view_; }   // NOLINT
  HEED_INLINE operator tensor_view<Element const, Rank>() const&& noexcept { return view_; }  // NOLINT: within the call

 private:
  template <std::size_t... Axis>
  HEED_INLINE static axes<Rank> extents_of(tensor const& other, std::index_sequence<Axis...>) noexcept {
    return axes<Rank>(other.extent(Axis)...);
  }
  HEED_INLINE void swap(tensor& other) noexcept {
    const tensor_view<Element, Rank> mine = view_;
    view_ = other.view_;
    other.view_ = mine;
  }

  tensor_view<Element, Rank> view_;
};

namespace detail {

template <class Element>
inline constexpr bool is_tensor = false;
template <class Element, std::size_t Rank>
inline constexpr bool is_tensor<tensor<Element, Rank>> = true;

/// A tensor or a view of one: what every argument of a call is.
template <class Element>
concept tensor_like = is_tensor<std::remove_cvref_t<Element>> || is_tensor_view<std::remove_cvref_t<Element>>;

/// Of a tensor or a view, the view.
template <class Given>
[[nodiscard]] HEED_INLINE auto view_of_tensor(Given const& given) noexcept {
  if constexpr (is_tensor<Given>) {
    return given.view();
  } else {
    return given;
  }
}

}  // namespace detail
}  // namespace heed
