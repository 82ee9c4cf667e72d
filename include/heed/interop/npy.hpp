// NumPy's .npy files: load_npy, parse_npy, save_npy, format_npy.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/base/element.hpp"
#include "heed/interop/npy_header.hpp"
#include "heed/interop/staged_file.hpp"
#include "heed/view/tensor.hpp"

namespace heed {

struct npy_array;

namespace detail {

template <class Element>
inline constexpr bool is_npy_integer = std::is_integral_v<Element> && !std::is_same_v<Element, bool> &&
                                       ((std::is_signed_v<Element> && (sizeof(Element) == 4 || sizeof(Element) == 8)) ||
                                        (std::is_unsigned_v<Element> && sizeof(Element) == 1));

}  // namespace detail

/// What .npy has a code for, among the types of heed: every element but bfloat16, and 4- and 8-byte signed and 1-byte
/// unsigned integers.
template <class Element>
concept npy_element = detail::is_npy_integer<Element> ||
    (element_kind_of<Element> != element_kind::none && element_kind_of<Element> != element_kind::bfloat16);

/// How save_npy writes. NumPy reads all of them.
struct npy_options {
  bool fortran_order = false;  ///< first axis fastest
  bool big_endian = false;
  npy_version version = npy_version::v1;
};

namespace detail {
inline namespace HEED_ABI {

template <class Element, std::size_t Rank>
[[nodiscard]] tensor<Element, Rank> npy_convert(npy_array const& array);

}  // namespace HEED_ABI
}  // namespace detail

/// An array as it came from a file: C order and this machine's byte order, whatever the file had.
struct npy_array {
  npy_type type = npy_type::f4;
  std::vector<index_t> shape;  ///< empty for a 0-d array, which holds one element
  std::vector<unsigned char> bytes;
  std::string name;  ///< the file; error texts begin with it

  [[nodiscard]] std::size_t rank() const noexcept { return shape.size(); }
  /// NumPy's code: "f4", "i8", "b1", ...
  [[nodiscard]] char const* code() const noexcept { return detail::npy_code(type); }
  /// "(3, 16, 384)"
  [[nodiscard]] std::string shape_text() const { return detail::npy_shape_text(shape); }

  /// A tensor of another (or the same) element type; every value is exact or rounded once.
  ///
  /// Floats and integers become any floating element. Integers become integers or bool where every value fits (bool: 0
  /// or 1). Refused: floats as integers or bool, bool as a number (a mask is not a bias).
  /// Throws: heed::error: wrong_rank unless the array has R axes, wrong_element_type where the conversion is refused.
  template <class Element, std::size_t Rank>
  [[nodiscard, gnu::always_inline]] tensor<Element, Rank> as() const {
    return detail::npy_convert<Element, Rank>(*this);
  }
};

namespace detail {
inline namespace HEED_ABI {

/// Calls `visit` with a value of the type that holds one element of the array in memory.
template <class Visitor>
void npy_with_type(npy_type type, Visitor const& visit) {
  switch (type) {
    case npy_type::f2: return visit(half{});
    case npy_type::f4: return visit(float{});
    case npy_type::f8: return visit(double{});
    case npy_type::i4: return visit(std::int32_t{});
    case npy_type::i8: return visit(std::int64_t{});
    case npy_type::u1: return visit(std::uint8_t{});
    case npy_type::b1: return visit(bool{});
  }
}

/// An integer as a double that rounds to half, bfloat16 and float as the integer itself would: beyond 53 bits the
/// lowest kept bit tells whether something was cut off.
[[nodiscard]] inline double integer_to_odd_double(std::int64_t value) noexcept {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (value >= -exact && value <= exact) return static_cast<double>(value);
  const bool inexact = (value & 2047) != 0;
  return static_cast<double>((value & ~std::int64_t{2047}) | (inexact ? 1024 : 0));
}

template <class Element, class From>
[[nodiscard]] Element to_floating(From value) noexcept {
  constexpr element_kind kind = element_kind_of<Element>;
  if constexpr (kind == element_kind::float64) {
    return static_cast<double>(value);
  } else if constexpr (kind == element_kind::float32) {
    return static_cast<float>(value);
  } else {
    using storage = std::conditional_t<kind == element_kind::float16, half, bfloat16>;
    storage stored{};
    if constexpr (std::is_integral_v<From>) {
      stored = storage(integer_to_odd_double(value));
    } else if constexpr (std::is_same_v<From, double>) {
      stored = storage(value);
    } else {
      stored = storage(static_cast<float>(value));
    }
    Element result;
    static_assert(sizeof(result) == sizeof(stored));
    std::memcpy(static_cast<void*>(&result), &stored, sizeof(result));  // T may be the compiler's or Eigen's own type
    return result;
  }
}

template <class Element, class From>
[[nodiscard]] constexpr bool fits_integer(From value) noexcept {
  if constexpr (std::is_same_v<Element, bool>) {
    return value == 0 || value == 1;
  } else {
    return static_cast<std::int64_t>(value) >= static_cast<std::int64_t>((std::numeric_limits<Element>::min)()) &&
           static_cast<std::int64_t>(value) <= static_cast<std::int64_t>((std::numeric_limits<Element>::max)());
  }
}

template <class Element>
[[nodiscard]] constexpr char const* npy_target_name() noexcept {
  if constexpr (is_npy_integer<Element>) {
    return sizeof(Element) == 1 ? "uint8" : (sizeof(Element) == 4 ? "int32" : "int64");
  } else {
    return element_name(element_kind_of<Element>);
  }
}

template <class Element, std::size_t Rank>
tensor<Element, Rank> npy_convert(npy_array const& array) {
  static_assert(Rank >= 1 && Rank <= 4, "heed::npy_array::as: ranks 1 to 4 are supported");
  static_assert(floating_element<Element> || is_npy_integer<Element> || std::is_same_v<Element, bool>,
                "heed::npy_array::as: the element type must be half, bfloat16, float, double, bool, std::uint8_t, "
                "std::int32_t or std::int64_t");
  const std::string where = "heed::npy_array::as: " + array.name;
  if (array.shape.size() != Rank) {
    raise(errc::wrong_rank, where + ": its shape is " + array.shape_text() + "; an array of " + std::to_string(Rank) +
                                " axes is needed (x.reshape(...) before numpy.save)");
  }
  axes<Rank> extents = [&]<std::size_t... Axis>(std::index_sequence<Axis...>) {
    return axes<Rank>(array.shape[Axis]...);
  }
  (std::make_index_sequence<Rank>{});
  tensor<Element, Rank> result(extents);
  const auto refuse = [&](std::string const& fix) {
    raise(errc::wrong_element_type,
          where + ": " + array.code() + " cannot become " + npy_target_name<Element>() + ": " + fix);
  };
  npy_with_type(array.type, [&]<class From>(From) {
    if (static_cast<std::size_t>(result.size()) * sizeof(From) != array.bytes.size()) {
      raise(errc::bad_file, where + ": shape " + array.shape_text() + " and " + std::to_string(array.bytes.size()) +
                                " bytes of " + array.code() + " do not belong together");
    }
    constexpr bool from_bool = std::is_same_v<From, bool>;
    constexpr bool from_floating = floating_element<From>;
    if constexpr (from_bool && !std::is_same_v<Element, bool>) {
      refuse("a mask is true or false; give it as a mask, or convert it with x.astype first");
    } else if constexpr (from_floating && !floating_element<Element>) {
      refuse(std::is_same_v<Element, bool> ? "numbers are not read as true or false; save x > 0, or x.astype(bool)"
                                           : "save whole numbers, x.astype(np.int64)");
    } else {
      for (index_t i = 0; i < result.size(); ++i) {
        unsigned char const* const stored = array.bytes.data() + static_cast<std::size_t>(i) * sizeof(From);
        From value{};
        if constexpr (from_bool) {
          value = *stored != 0;
        } else {
          std::memcpy(&value, stored, sizeof(From));
        }
        if constexpr (floating_element<Element>) {
          result.data()[i] = to_floating<Element>(value);
        } else {
          if (!fits_integer<Element>(value)) {
            refuse("element " + std::to_string(i) + " is " + std::to_string(value) +
                   (std::is_same_v<Element, bool> ? "; only 0 and 1 mean false and true" : ", which does not fit"));
          }
          result.data()[i] = static_cast<Element>(value);
        }
      }
    }
  });
  return result;
}

/// Turns elements of `size` bytes around.
inline void npy_swap_bytes(std::vector<unsigned char>& bytes, std::size_t size) noexcept {
  for (std::size_t begin = 0; begin + size <= bytes.size(); begin += size) {
    for (std::size_t i = 0; i < size / 2; ++i) std::swap(bytes[begin + i], bytes[begin + size - 1 - i]);
  }
}

/// First axis fastest -> last axis fastest.
[[nodiscard]] inline std::vector<unsigned char> npy_to_c_order(std::vector<unsigned char> const& bytes,
                                                               std::vector<index_t> const& shape, std::size_t size) {
  std::vector<unsigned char> result(bytes.size());
  std::vector<std::size_t> index(shape.size());
  std::vector<std::size_t> stride(shape.size());
  std::size_t step = size;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    stride[axis] = step;
    step *= static_cast<std::size_t>(shape[axis]);
  }
  std::size_t from = 0;
  for (std::size_t to = 0; to < bytes.size(); to += size) {
    std::memcpy(result.data() + to, bytes.data() + from, size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < static_cast<std::size_t>(shape[axis])) break;
      from -= stride[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return result;
}

[[nodiscard]] inline npy_array npy_finish(npy_header header, std::vector<unsigned char> bytes, std::string name,
                                          std::string_view where) {
  const std::size_t size = npy_size(header.type);
  if (header.type == npy_type::b1) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] > 1)
        npy_refuse(where, "it is damaged: byte " + std::to_string(i) + " of the bools is neither 0 nor 1");
    }
  }
  if (header.big_endian) npy_swap_bytes(bytes, size);
  if (header.fortran_order && header.shape.size() > 1) bytes = npy_to_c_order(bytes, header.shape, size);
  return {header.type, std::move(header.shape), std::move(bytes), std::move(name)};
}

/// A regular file opened for reading, with its size.
class npy_source {
 public:
  npy_source(std::string const& path, std::string_view where) : where_(where) {
    // Without O_NONBLOCK opening a pipe that nobody writes to would wait forever.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) npy_refuse(where_, std::strerror(errno));
    struct stat facts = {};
    const bool known = ::fstat(descriptor_, &facts) == 0;
    if (!known || !S_ISREG(facts.st_mode)) {
      (void)::close(descriptor_);
      npy_refuse(where_, known && S_ISDIR(facts.st_mode) ? "it is a directory; give the name of a .npy file"
                                                         : "it is not a regular file; give the name of a .npy file");
    }
    size_ = static_cast<std::size_t>(facts.st_size);
  }
  npy_source(npy_source const&) = delete;
  npy_source& operator=(npy_source const&) = delete;
  ~npy_source() { (void)::close(descriptor_); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void read(void* bytes, std::size_t size) {
    char* at = static_cast<char*>(bytes);
    while (size > 0) {
      const ssize_t count = ::read(descriptor_, at, size);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) npy_refuse(where_, std::strerror(errno));
      if (count == 0) npy_refuse(where_, "the file became shorter while it was read");
      at += count;
      size -= static_cast<std::size_t>(count);
    }
  }

 private:
  std::string_view where_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// Reads a .npy image that lies in memory (an archive member, a fuzzer's input). `name` stands in error texts.
///
/// Throws: heed::error (bad_file) for whatever is not a whole, plain .npy of a supported type: wrong magic or version,
/// a damaged header, a shape that overflows or disagrees with the size, object or structured arrays, bytes that follow.
/// Cost: memory for the elements that are really there, never for those that the header claims.
[[nodiscard]] inline npy_array parse_npy(std::span<unsigned char const> bytes, std::string name = "the given bytes") {
  const std::string where = "heed::parse_npy: " + name;
  const detail::npy_extent place = detail::npy_find_dict(bytes, bytes.size(), where);
  const std::string_view dict(reinterpret_cast<char const*>(bytes.data()) + place.begin, place.size);
  detail::npy_header header = detail::npy_read_header(place, dict, bytes.size(), where);
  const auto data = bytes.subspan(header.data_begin, header.data_size);
  return detail::npy_finish(std::move(header), {data.begin(), data.end()}, std::move(name), where);
}

/// Reads a .npy file: f2 f4 f8 i4 i8 u1 b1, both orders, both byte orders, versions 1.0 to 3.0.
///
/// `load_npy("query.npy").as<float, 4>()` is a tensor.
/// Throws and cost: as parse_npy; also bad_file where the file cannot be read or is not a regular one.
[[nodiscard]] inline npy_array load_npy(std::string const& path) {
  const std::string where = "heed::load_npy: " + path;
  detail::npy_source file(path, where);
  unsigned char start[detail::npy_preamble_size] = {};
  const std::size_t known = file.size() < sizeof(start) ? file.size() : sizeof(start);
  file.read(start, known);
  const detail::npy_extent place = detail::npy_find_dict({start, known}, file.size(), where);
  // In version 1.0 the preamble ends two bytes earlier: those are the first of the dict.
  std::string dict(reinterpret_cast<char const*>(start) + place.begin, known - place.begin);
  const std::size_t already = dict.size();
  dict.resize(place.size);
  if (place.size > already) file.read(dict.data() + already, place.size - already);
  detail::npy_header header = detail::npy_read_header(place, dict, file.size(), where);
  std::vector<unsigned char> bytes(header.data_size);
  file.read(bytes.data(), bytes.size());
  return detail::npy_finish(std::move(header), std::move(bytes), path, where);
}

}  // namespace HEED_ABI

namespace detail {
inline namespace HEED_ABI {

template <class Element>
[[nodiscard]] constexpr npy_type npy_type_of() noexcept {
  if constexpr (is_npy_integer<Element>) {
    return sizeof(Element) == 1 ? npy_type::u1 : (sizeof(Element) == 4 ? npy_type::i4 : npy_type::i8);
  } else {
    switch (element_kind_of<Element>) {
      case element_kind::float16: return npy_type::f2;
      case element_kind::float64: return npy_type::f8;
      case element_kind::boolean: return npy_type::b1;
      default: return npy_type::f4;
    }
  }
}

template <class Element, std::size_t Rank>
void npy_check(tensor_view<Element, Rank> view, std::string const& where) {
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    if (view.extent(axis) < 0) {
      raise(errc::negative_extent, where + ": extent " + std::to_string(axis) + " is " +
                                       std::to_string(view.extent(axis)) + "; extents must be 0 or more");
    }
  }
  if (view.size() > INT64_MAX / static_cast<index_t>(sizeof(Element))) {
    raise(errc::size_overflow, where + ": the extents multiply to more bytes than 64 bits can count");
  }
  if (view.data() == nullptr && view.size() > 0) {
    raise(errc::null_data, where + ": the view has " + std::to_string(view.size()) + " elements but no data");
  }
}

/// Hands the whole file to `put(bytes, size)`, in blocks.
template <class Element, std::size_t Rank, class Put>
void npy_emit(tensor_view<Element, Rank> view, npy_options options, Put const& put) {
  std::vector<index_t> shape;
  for (std::size_t axis = 0; axis < Rank; ++axis) shape.push_back(view.extent(axis));
  const std::string header = npy_format_header(npy_type_of<std::remove_cv_t<Element>>(), options.big_endian,
                                               options.fortran_order, shape, options.version);
  put(header.data(), header.size());

  constexpr std::size_t block = 65536;
  std::vector<unsigned char> bytes;
  bytes.reserve(block + sizeof(Element));
  const auto flush = [&] {
    if (options.big_endian) npy_swap_bytes(bytes, sizeof(Element));
    put(bytes.data(), bytes.size());
    bytes.clear();
  };
  index_t index[Rank] = {};
  index_t offset = 0;
  for (index_t count = 0; count < view.size(); ++count) {
    unsigned char raw[sizeof(Element)];
    std::memcpy(raw, static_cast<void const*>(view.data() + offset), sizeof(Element));
    bytes.insert(bytes.end(), raw, raw + sizeof(Element));
    if (bytes.size() >= block) flush();
    for (std::size_t turn = 0; turn < Rank; ++turn) {
      const std::size_t axis = options.fortran_order ? turn : Rank - 1 - turn;
      offset += view.stride(axis);
      if (++index[axis] < view.extent(axis)) break;
      offset -= view.stride(axis) * index[axis];
      index[axis] = 0;
    }
  }
  flush();
}

template <class Element>
inline constexpr bool is_npy_saveable = [] {
  static_assert(element_kind_of<Element> != element_kind::bfloat16,
                "heed::save_npy: .npy has no code for bfloat16; copy it to a tensor<float, R> (exact) and save that");
  static_assert(npy_element<Element>,
                "heed::save_npy: the element type must be half, float, double, bool, std::uint8_t, std::int32_t or "
                "std::int64_t; copy to one of these first");
  return npy_element<Element>;
}();

}  // namespace HEED_ABI
}  // namespace detail

inline namespace HEED_ABI {

/// The bytes that save_npy would write.
template <detail::tensor_like Tensor>
[[nodiscard]] std::vector<unsigned char> format_npy(Tensor const& x, npy_options options = {}) {
  static_assert(detail::is_npy_saveable<typename Tensor::value_type>);
  const tensor_view<typename Tensor::value_type const, Tensor::rank> view = x;
  detail::npy_check(view, "heed::format_npy");
  std::vector<unsigned char> image;
  detail::npy_emit(view, options, [&](void const* bytes, std::size_t size) {
    unsigned char const* const begin = static_cast<unsigned char const*>(bytes);
    image.insert(image.end(), begin, begin + size);
  });
  return image;
}

/// Writes a view or tensor of rank 1 to 4, any strides, into a file that is not yet in its place: several results can
/// be written first and committed together.
template <detail::tensor_like Tensor>
void save_npy(staged_file& file, Tensor const& x, npy_options options = {}) {
  static_assert(detail::is_npy_saveable<typename Tensor::value_type>);
  const tensor_view<typename Tensor::value_type const, Tensor::rank> view = x;
  detail::npy_check(view, "heed::save_npy: " + file.path());
  detail::npy_emit(view, options, [&](void const* bytes, std::size_t size) { file.write(bytes, size); });
}

/// Writes a view or tensor of rank 1 to 4, any strides, as a .npy file: beside its place first, then moved there whole.
///
/// bfloat16 has no .npy code and does not compile: copy it to float (exact) first.
/// Throws: heed::error (bad_file, null_data, negative_extent, size_overflow); an existing file is then untouched.
template <detail::tensor_like Tensor>
void save_npy(std::string const& path, Tensor const& x, npy_options options = {}) {
  static_assert(detail::is_npy_saveable<typename Tensor::value_type>);
  const tensor_view<typename Tensor::value_type const, Tensor::rank> view = x;
  detail::npy_check(view, "heed::save_npy: " + path);
  staged_file file(path);
  save_npy(file, view, options);
  file.commit();
}

}  // namespace HEED_ABI
}  // namespace heed
