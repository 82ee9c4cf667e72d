// tensor<T, R>: a view that owns its memory.
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
template <class T, std::size_t R>
class tensor {
  static_assert(
      std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
      "heed::tensor: the element type must be a plain number; for read-only data use tensor_view<T const, R>");

 public:
  using element_type = T;
  using value_type = T;
  static constexpr std::size_t rank = R;

  tensor() = default;
  explicit tensor(axes<R> extents) {
    for (std::size_t axis = 0; axis < R; ++axis) {
      if (extents[axis] < 0) {
        detail::raise(errc::negative_extent, "heed::tensor: extent " + std::to_string(axis) + " is " +
                                                 std::to_string(extents[axis]) + "; extents must be 0 or more");
      }
    }
    view_ = tensor_view<T, R>(nullptr, extents);
    if (view_.size() > INT64_MAX / 2 / static_cast<index_t>(sizeof(T))) {
      detail::raise(errc::size_overflow, "heed::tensor: the extents multiply to more bytes than 64 bits can count");
    }
    allocate(extents);
    for (index_t i = 0; i < size(); ++i) data()[i] = T{};
  }
  // `tensor<float, 1>({5})`: without this overload GCC cannot tell the extent from a tensor made of it.
  template <std::integral I>
  requires(R == 1) explicit tensor(I const (&extents)[R]) : tensor(axes<R>(extents[0])) {}
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

  [[nodiscard]] T* data() noexcept { return view_.data(); }
  [[nodiscard]] T const* data() const noexcept { return view_.data(); }
  [[nodiscard]] index_t extent(std::size_t axis) const noexcept { return view_.extent(axis); }
  [[nodiscard]] index_t stride(std::size_t axis) const noexcept { return view_.stride(axis); }
  [[nodiscard]] index_t size() const noexcept { return view_.size(); }

  template <class... I>
  requires(sizeof...(I) == R && (std::is_integral_v<I> && ...)) [[nodiscard]] T& operator()(I... indices) noexcept {
    return view_(indices...);
  }
  template <class... I>
  requires(sizeof...(I) == R && (std::is_integral_v<I> && ...)) [[nodiscard]] T const& operator()(
      I... indices) const noexcept {
    return view_(indices...);
  }

  [[nodiscard]] tensor_view<T, R> view() noexcept { return view_; }
  [[nodiscard]] tensor_view<T const, R> view() const noexcept { return view_; }
  operator tensor_view<T, R>() & noexcept { return view_; }              // NOLINT
  operator tensor_view<T const, R>() const& noexcept { return view_; }   // NOLINT
  operator tensor_view<T const, R>() const&& noexcept { return view_; }  // NOLINT: read within the call

 private:
  void allocate(axes<R> extents) {
    void* memory = nullptr;
    if (view_.size() > 0) {
      memory = ::operator new (static_cast<std::size_t>(view_.size()) * sizeof(T), std::align_val_t{64});
    }
    view_ = tensor_view<T, R>(static_cast<T*>(memory), extents);
  }
  void copy(tensor const& other) {
    axes<R> extents = [&]<std::size_t... A>(std::index_sequence<A...>) { return axes<R>(other.extent(A)...); }
    (std::make_index_sequence<R>{});
    view_ = tensor_view<T, R>(nullptr, extents);
    allocate(extents);
    for (index_t i = 0; i < size(); ++i) data()[i] = other.data()[i];
  }

  tensor_view<T, R> view_;
};

namespace detail {

template <class T>
inline constexpr bool is_tensor = false;
template <class T, std::size_t R>
inline constexpr bool is_tensor<tensor<T, R>> = true;

/// A tensor or a view of one: what every argument of a call is.
template <class T>
concept tensor_like = is_tensor<std::remove_cvref_t<T>> || is_tensor_view<std::remove_cvref_t<T>>;

}  // namespace detail
}  // namespace heed
