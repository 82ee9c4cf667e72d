// list<T>: a view of numbers that the caller owns (lengths, offsets).
#pragma once

#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include "heed/base/index.hpp"

namespace heed {
namespace detail {

template <class C>
concept contiguous_container = requires(C const& c) {
  c.data();
  c.size();
};
template <class C>
inline constexpr bool is_span = false;
template <class T, std::size_t N>
inline constexpr bool is_span<std::span<T, N>> = true;

}  // namespace detail

/// A view of numbers; it must outlive the call it is given to, so a temporary container does not compile.
/// Made from a std::span, or from an lvalue vector or array of exactly T.
template <class T>
class list {
 public:
  constexpr list() = default;

  template <class C>
  requires(
      detail::contiguous_container<std::remove_cvref_t<C>> &&
      !std::is_same_v<std::remove_cvref_t<C>,
                      list>) constexpr list(C&& container) noexcept  // NOLINT: lists are written as plain arguments
      : data_(container.data()), size_(static_cast<index_t>(container.size())) {
    using container_type = std::remove_cvref_t<C>;
    static_assert(std::is_lvalue_reference_v<C> || detail::is_span<container_type>,
                  "heed::list: a temporary container is gone before the call reads it; give it a name first, "
                  "and pass that");
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(*container.data())>, T>,
                  "heed::list: the container must hold exactly the element type of the list (lengths and offsets "
                  "are heed::index_t, that is std::int64_t); convert it first");
  }
  template <std::size_t N>
  constexpr list(T const (&array)[N]) noexcept : data_(array), size_(static_cast<index_t>(N)) {}  // NOLINT

  [[nodiscard]] HEED_FN constexpr T const* data() const noexcept { return data_; }
  [[nodiscard]] HEED_FN constexpr index_t size() const noexcept { return size_; }
  [[nodiscard]] HEED_FN constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] HEED_FN constexpr T operator[](index_t i) const noexcept { return data_[i]; }

 private:
  T const* data_ = nullptr;
  index_t size_ = 0;
};

}  // namespace heed
