// Eigen objects as tensor views, without a copy: matrices, arrays, maps, refs, blocks, transposes, and the Tensor
// module.
//
// The Tensor module (unsupported/Eigen/CXX11/Tensor) is not included: whoever has such an object has included it, its
// types are recognised by what they offer, in either order of the includes, and everybody else keeps the 0.3 s (g++) to
// 0.6 s (clang) of compile time that it costs on top of Eigen/Core.
#pragma once

#if !defined(EIGEN_WORLD_VERSION)  // else: the user's own copy of Eigen, wherever it lies
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#elif __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#else
#error "heed/interop/eigen.hpp needs Eigen 3.4 or later: install it (Debian: libeigen3-dev) and add its folder with -I."
#endif
#endif
#if !EIGEN_VERSION_AT_LEAST(3, 4, 0)
#error "heed/interop/eigen.hpp needs Eigen 3.4 or later: this one is older."
#endif

#include <cstddef>
#include <type_traits>
#include <utility>

#include "heed/base/element.hpp"
#include "heed/view/tensor_view.hpp"

namespace heed {

template <>
inline constexpr element_kind element_kind_of<Eigen::half> = element_kind::float16;
template <>
inline constexpr element_kind element_kind_of<Eigen::bfloat16> = element_kind::bfloat16;

namespace detail {

template <class Derived>
void eigen_base(Eigen::EigenBase<Derived> const&);
template <class Derived>
void eigen_plain(Eigen::PlainObjectBase<Derived> const&);

template <class Object>
concept eigen_matrix_like = requires(Object const& object) {
  eigen_base(object);
};

// Anything of the Tensor module, expressions too.
template <class Object>
concept eigen_tensor_like = !eigen_matrix_like<Object> && requires {
  Object::NumDimensions;
  typename Object::CoeffReturnType;
  requires std::is_same_v<typename Object::StorageKind, Eigen::Dense>;
};

// Of a transposed expression Eigen shows these members as well, so the flag has to be asked too.
template <class Object>
concept eigen_matrix_in_memory = eigen_matrix_like<Object> && requires(Object& object) {
  requires(static_cast<unsigned>(Object::Flags) & static_cast<unsigned>(Eigen::DirectAccessBit)) != 0;
  object.data();
  object.rowStride();
  object.colStride();
};

template <class Object>
concept eigen_tensor_in_memory = eigen_tensor_like<Object> && requires(Object& object) {
  Object::NumIndices;
  object.data();
  object.dimension(0);
  requires bool(Object::RawAccess);  // not TensorRef, which may stand for an expression
};

// A Ref to const data may hold a copy of what it was made from.
template <class Object>
inline constexpr bool is_eigen_ref_to_const = false;
template <class Plain, int Options, class Strides>
inline constexpr bool is_eigen_ref_to_const<Eigen::Ref<Plain const, Options, Strides>> = true;

template <class Object>
[[nodiscard]] consteval bool eigen_owns_memory() noexcept {
  if constexpr (eigen_matrix_in_memory<Object>) {
    return requires(Object const& object) { eigen_plain(object); }
    || is_eigen_ref_to_const<Object> || !std::is_trivially_destructible_v<Object>;
  } else if constexpr (eigen_tensor_in_memory<Object>) {
    // What owns its elements guards them when it is const; a TensorMap gives the same pointer either way.
    return !std::is_same_v<decltype(std::declval<Object&>().data()), decltype(std::declval<Object const&>().data())>;
  } else {
    return false;
  }
}

// The rank an object has when the caller does not say.
inline constexpr std::size_t eigen_own_rank = 0;

template <class Object>
[[nodiscard]] consteval std::size_t eigen_rank() noexcept {
  if constexpr (eigen_tensor_in_memory<Object>) {
    return static_cast<std::size_t>(Object::NumIndices);
  } else if constexpr (eigen_matrix_in_memory<Object>) {
    return Object::IsVectorAtCompileTime ? 1 : 2;
  } else {
    return 2;
  }
}

}  // namespace detail

inline namespace HEED_ABI {

/// A view of an Eigen object: no copy, and valid for as long as the object's memory is.
///
/// Takes: Matrix, Array, Map (any Stride), Ref, Block, and what else Eigen can address directly (transpose(), array(),
/// matrix(), diagonal(), reshaped() of one of them), row-major or column-major; Tensor, TensorFixedSize, TensorMap.
/// Shapes: a matrix gives rank 2, [rows, cols]; what is a vector by its type (VectorXf, m.row(0)) gives rank 1, [size],
/// as lse and key masks want it; `as_view<2>(vector)` gives [rows, cols] (a single query is `as_view<2>(m.row(i))`);
/// a tensor of 1 to 4 indices gives its own rank.
/// Const: a const object, or one over const data (Ref<MatrixXf const>), gives a tensor_view<T const, R>, else T.
/// Does not compile: an expression (a * b), which has no memory, and a temporary that owns its memory. What refers to
/// such a temporary (`f().transpose()`) cannot be told from the rest; do not write it.
/// Elements: any; Eigen::half and Eigen::bfloat16 count as elements of query, key, value and out. A view of
/// Array<bool, ...> is a mask. Throws: nothing. Cost: none. Example: examples/06_eigen.cpp.
template <std::size_t Rank = detail::eigen_own_rank, class Object>
requires(detail::eigen_matrix_like<std::remove_cvref_t<Object>> ||
         detail::eigen_tensor_like<std::remove_cvref_t<Object>>)
    [[nodiscard]] constexpr auto as_view(Object&& object) noexcept {
  using object_type = std::remove_reference_t<Object>;
  using plain_type = std::remove_cv_t<object_type>;
  constexpr bool is_matrix = detail::eigen_matrix_in_memory<plain_type>;
  constexpr bool is_tensor = detail::eigen_tensor_in_memory<plain_type>;
  constexpr std::size_t own_rank = detail::eigen_rank<plain_type>();
  constexpr std::size_t rank = Rank == detail::eigen_own_rank ? own_rank : Rank;
  constexpr bool has_memory = is_matrix || is_tensor;
  constexpr bool outlives = std::is_lvalue_reference_v<Object> || !detail::eigen_owns_memory<plain_type>();
  constexpr bool has_rank =
      own_rank >= 1 && own_rank <= 4 && (rank == own_rank || (is_matrix && own_rank == 1 && rank == 2));
  static_assert(
      has_memory,
      "heed::as_view: an Eigen expression (a product, a sum, ...) has no elements in memory to look at; "
      "evaluate it into a named object first, `auto const m = (a * b).eval();` (a tensor expression: assign it "
      "to an Eigen::Tensor), and pass that");
  static_assert(outlives,
                "heed::as_view: this temporary owns its elements, and they are gone before the view is read; give it a "
                "name first, `auto const m = ...;`, and pass that");
  static_assert(!has_memory || has_rank,
                "heed::as_view: a matrix has rank 2, a vector rank 1 or (as_view<2>) 2, a tensor its own number of "
                "indices, which must be 1 to 4");
  if constexpr (!has_memory || !outlives || !has_rank) {
    return tensor_view<float const, 2>();  // only to keep the compiler from saying more than the text above
  } else if constexpr (is_tensor) {
    using pointed = std::remove_pointer_t<decltype(object.data())>;
    using element = std::conditional_t<std::is_const_v<object_type>, pointed const, pointed>;
    axes<rank> extents = [&]<std::size_t... Axis>(std::index_sequence<Axis...>) {
      return axes<rank>(object.dimension(Axis)...);
    }
    (std::make_index_sequence<rank>{});
    if constexpr (static_cast<int>(plain_type::Layout) == static_cast<int>(Eigen::RowMajor)) {
      return tensor_view<element, rank>(object.data(), extents);
    } else {
      axes<rank> strides = extents;
      index_t stride = 1;
      for (std::size_t axis = 0; axis < rank; ++axis) {
        strides[axis] = stride;
        stride *= extents[axis];
      }
      return tensor_view<element, rank>(object.data(), extents, strides);
    }
  } else {
    using element = std::remove_pointer_t<decltype(object.data())>;
    if constexpr (rank == 1) {
      return tensor_view<element, 1>(object.data(), {object.size()}, {object.innerStride()});
    } else {
      return tensor_view<element, 2>(object.data(), {object.rows(), object.cols()},
                                     {object.rowStride(), object.colStride()});
    }
  }
}

}  // namespace HEED_ABI
}  // namespace heed
