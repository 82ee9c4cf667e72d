// list<Element>: a view of numbers that the caller owns (lengths, offsets).
#pragma once

#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include "heed/base/index.hpp"

namespace heed {
namespace detail {

template <class Container>
concept contiguous_container = requires(Container const& c) {
  c.data();
  c.size();
};
template <class Container>
inline constexpr bool is_span = false;
template <class Element, std::size_t Count>
inline constexpr bool is_span<std::span<Element, Count>> = true;

}  // namespace detail

/// A view of numbers; it must outlive the call it is given to, so a temporary container does not compile.
/// Made from a std::span, or from an lvalue vector or array of exactly the list's type.
template <class Element>
class list {
 public:
  HEED_FN constexpr list() noexcept {}

  // Implicit: lists are written as plain arguments.
  template <class Container>
  requires(detail::contiguous_container<std::remove_cvref_t<Container>> &&
           !std::is_same_v<std::remove_cvref_t<Container>, list>)  //
      HEED_FN constexpr list(Container&& container) noexcept       // NOLINT
      : size_(static_cast<index_t>(container.size())), given_(true) {
    using container_type = std::remove_cvref_t<Container>;
    static_assert(std::is_lvalue_reference_v<Container> || detail::is_span<container_type>,
                  "heed::list: a temporary container is gone before the call reads it; give it a name first, "
                  "and pass that");
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(*container.data())>, Element>,
                  "heed::list: the container must hold exactly the element type of the list (lengths and offsets "
                  "are heed::index_t, that is std::int64_t); convert it first");
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*container.data())>, Element>) data_ = container.data();
  }
  template <std::size_t Count>
  HEED_FN constexpr list(Element const (&array)[Count]) noexcept
      : data_(array), size_(static_cast<index_t>(Count)), given_(true) {}  // NOLINT

  [[nodiscard]] HEED_FN constexpr Element const* data() const noexcept { return data_; }
  [[nodiscard]] HEED_FN constexpr index_t size() const noexcept { return size_; }
  /// Whether there is a list at all; one without numbers still has to have as many as the call wants.
  [[nodiscard]] HEED_FN constexpr bool given() const noexcept { return given_; }
  [[nodiscard]] HEED_FN constexpr Element operator[](index_t i) const noexcept { return data_[i]; }

 private:
  Element const* data_ = nullptr;
  index_t size_ = 0;
  bool given_ = false;
};

}  // namespace heed
