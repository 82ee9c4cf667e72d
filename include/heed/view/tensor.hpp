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

  tensor() = default;
  explicit tensor(axes<Rank> extents) {
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      if (extents[axis] < 0) {
        detail::raise(errc::negative_extent, "heed::tensor: extent " + std::to_string(axis) + " is " +
                                                 std::to_string(extents[axis]) + "; extents must be 0 or more");
      }
    }
    view_ = tensor_view<Element, Rank>(nullptr, extents);
    if (view_.size() > INT64_MAX / 2 / static_cast<index_t>(sizeof(Element))) {
      detail::raise(errc::size_overflow, "heed::tensor: the extents multiply to more bytes than 64 bits can count");
    }
    allocate(extents);
    for (index_t i = 0; i < size(); ++i) data()[i] = Element{};
  }
  // `tensor<float, 1>({5})`: without this overload GCC cannot tell the extent from a tensor made of it.
  template <std::integral Integer>
  requires(Rank == 1) explicit tensor(Integer const (&extents)[Rank]) : tensor(axes<Rank>(extents[0])) {}
  tensor(tensor const& other) { copy(other); }
  tensor(tensor&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  tensor& operator=(tensor const& other) {
    if (this != &other) {
      tensor fresh(other);
      std::swap(view_, fresh.view_);
    }
    return *this;
  }
  tensor& operator=(tensor&& other) noexcept {
    tensor fresh(std::move(other));
    std::swap(view_, fresh.view_);
    return *this;
  }
  ~tensor() {
    if (view_.data() != nullptr) ::operator delete (static_cast<void*>(view_.data()), std::align_val_t{64});
  }

  [[nodiscard]] Element* data() noexcept { return view_.data(); }
  [[nodiscard]] Element const* data() const noexcept { return view_.data(); }
  [[nodiscard]] index_t extent(std::size_t axis) const noexcept { return view_.extent(axis); }
  [[nodiscard]] index_t stride(std::size_t axis) const noexcept { return view_.stride(axis); }
  [[nodiscard]] index_t size() const noexcept { return view_.size(); }

  template <class... Integer>
  requires(sizeof...(Integer) == Rank && (std::is_integral_v<Integer> && ...)) [[nodiscard]] Element& operator()(
      Integer... indices) noexcept {
    return view_(indices...);
  }
  template <class... Integer>
  requires(sizeof...(Integer) == Rank && (std::is_integral_v<Integer> && ...)) [[nodiscard]] Element const& operator()(
      Integer... indices) const noexcept {
    return view_(indices...);
  }

  [[nodiscard]] tensor_view<Element, Rank> view() noexcept { return view_; }
  [[nodiscard]] tensor_view<Element const, Rank> view() const noexcept { return view_; }
  operator tensor_view<Element, Rank>() & noexcept { return view_; }              // NOLINT
  operator tensor_view<Element const, Rank>() const& noexcept { return view_; }   // NOLINT
  operator tensor_view<Element const, Rank>() const&& noexcept { return view_; }  // NOLINT: read within the call

 private:
  void allocate(axes<Rank> extents) {
    void* memory = nullptr;
    if (view_.size() > 0) {
      memory = ::operator new (static_cast<std::size_t>(view_.size()) * sizeof(Element), std::align_val_t{64});
    }
    view_ = tensor_view<Element, Rank>(static_cast<Element*>(memory), extents);
  }
  void copy(tensor const& other) {
    axes<Rank> extents = [&]<std::size_t... Axis>(std::index_sequence<Axis...>) {
      return axes<Rank>(other.extent(Axis)...);
    }
    (std::make_index_sequence<Rank>{});
    view_ = tensor_view<Element, Rank>(nullptr, extents);
    allocate(extents);
    for (index_t i = 0; i < size(); ++i) data()[i] = other.data()[i];
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

}  // namespace detail
}  // namespace heed
