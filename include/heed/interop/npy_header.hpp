// The header of a .npy file: magic, version, and the dict literal that tells element type, order and shape.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/base/error.hpp"
#include "heed/base/index.hpp"

namespace heed {

/// The element types of .npy files that heed reads and writes, under NumPy's own codes.
enum class npy_type : unsigned char { f2, f4, f8, i4, i8, u1, b1 };

/// The format versions: 1.0 is what NumPy writes unless it must not; 2.0 has a wider length, 3.0 a UTF-8 header.
enum class npy_version : unsigned char { v1 = 1, v2 = 2, v3 = 3 };

namespace detail {
inline namespace HEED_ABI {

/// What the header says, checked against the size of the whole file.
struct npy_header {
  npy_type type = npy_type::f4;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<index_t> shape;
  std::size_t data_begin = 0;
  std::size_t data_size = 0;
};

[[nodiscard]] constexpr std::size_t npy_size(npy_type type) noexcept {
  switch (type) {
    case npy_type::f2: return 2;
    case npy_type::f4:
    case npy_type::i4: return 4;
    case npy_type::f8:
    case npy_type::i8: return 8;
    default: return 1;
  }
}

[[nodiscard]] constexpr char const* npy_code(npy_type type) noexcept {
  constexpr char const* codes[] = {"f2", "f4", "f8", "i4", "i8", "u1", "b1"};
  return codes[static_cast<std::size_t>(type)];
}

/// A shape as Python writes it: "()", "(3,)", "(3, 16)".
[[nodiscard]] inline std::string npy_shape_text(std::vector<index_t> const& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// Bytes of a file for use in an error text: one line, printable, short.
[[nodiscard]] inline std::string npy_quote(std::string_view bytes) {
  constexpr std::size_t longest = 40;
  std::string text = "'";
  for (char c : bytes.substr(0, longest)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (bytes.size() > longest ? "...'" : "'");
}

[[noreturn]] inline void npy_refuse(std::string_view where, std::string_view text) {
  raise(errc::bad_file, std::string(where) + ": " + std::string(text));
}

/// Reads the dict literal. It takes what NumPy writes, in any key order and spacing, and nothing else of Python.
class npy_dict_reader {
 public:
  npy_dict_reader(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  void read(npy_header& header) {
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted("a key in quotes");
      expect(':');
      if (key == "descr") {
        once(seen[0], key);
        read_type(header);
      } else if (key == "fortran_order") {
        once(seen[1], key);
        header.fortran_order = read_truth();
      } else if (key == "shape") {
        once(seen[2], key);
        read_shape(header.shape);
      } else {
        refuse("the header has an unknown key " + npy_quote(key) +
               "; only descr, fortran_order and shape belong there");
      }
      if (!accept(',') && peek() != '}') malformed("',' or '}'");
    }
    if (!(seen[0] && seen[1] && seen[2])) refuse("the header lacks one of its keys descr, fortran_order, shape");
    skip_spaces();
    if (at_ < text_.size()) malformed("the end of the header");
  }

 private:
  [[noreturn]] void refuse(std::string const& text) const { npy_refuse(where_, text); }
  [[noreturn]] void malformed(std::string const& wanted) const {
    refuse("the header is damaged: expected " + wanted + " at character " + std::to_string(at_) + ", found " +
           (at_ < text_.size() ? npy_quote(text_.substr(at_, 12)) : std::string("its end")));
  }
  void once(bool& seen, std::string_view key) const {
    if (seen) refuse("the header has the key " + npy_quote(key) + " twice");
    seen = true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  [[nodiscard]] char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  [[nodiscard]] bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) malformed(std::string("'") + wanted + "'");
  }
  [[nodiscard]] bool accept_word(std::string_view word) {
    skip_spaces();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  [[nodiscard]] std::string_view quoted(char const* wanted) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed(wanted);
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) malformed("a closing quote");
    const std::string_view inner = text_.substr(begin, end - begin);
    if (inner.find('\\') != std::string_view::npos) malformed("a string without escapes");
    at_ = end + 1;
    return inner;
  }

  [[nodiscard]] bool read_truth() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    malformed("True or False");
  }

  void read_type(npy_header& header) {
    if (peek() == '[') {
      refuse("it holds a structured array; save its fields one by one (x['name']) and load those");
    }
    const std::string_view descr = quoted("an element type in quotes");
    const char order = descr.empty() ? '\0' : descr[0];
    const std::string_view code = descr.substr(descr.empty() ? 0 : 1);
    if (code.substr(0, 1) == "O") {
      refuse("it holds Python objects (a pickle), which are never read; save a plain array (x.astype(np.float32))");
    }
    constexpr npy_type types[] = {npy_type::f2, npy_type::f4, npy_type::f8, npy_type::i4,
                                  npy_type::i8, npy_type::u1, npy_type::b1};
    for (npy_type type : types) {
      const bool one_byte = npy_size(type) == 1;
      if (code == npy_code(type) && (order == '<' || order == '>' || (one_byte && order == '|'))) {
        header.type = type;
        header.big_endian = order == '>';
        return;
      }
    }
    refuse("the element type " + npy_quote(descr) +
           " is none of f2 f4 f8 i4 i8 u1 b1; convert it first (x.astype(np.float32); bfloat16 has no .npy code)");
  }

  void read_shape(std::vector<index_t>& shape) {
    constexpr std::size_t most_axes = 64;  // as many as NumPy ever allows
    shape.clear();
    expect('(');
    while (!accept(')')) {
      if (peek() == '-') refuse("the shape has a negative extent");
      index_t extent = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (status == std::errc::result_out_of_range) refuse("the shape has an extent beyond 64 bits");
      if (status != std::errc{}) malformed("an extent or ')'");
      at_ += static_cast<std::size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote (3L, 4L)
      shape.push_back(extent);
      if (shape.size() > most_axes) refuse("the shape has more than 64 axes");
      if (!accept(',')) {
        if (shape.size() == 1) malformed("',': a shape is a tuple, and one of one axis is written (n,)");
        if (peek() != ')') malformed("',' or ')'");
      }
    }
  }

  std::string_view text_;
  std::string_view where_;
  std::size_t at_ = 0;
};

/// The longest start of a file that tells where its header ends.
inline constexpr std::size_t npy_preamble_size = 12;

struct npy_extent {
  std::size_t begin;
  std::size_t size;
};

/// Where the dict literal lies, from the first bytes (at most npy_preamble_size are needed) of a file of `file_size`.
[[nodiscard]] inline npy_extent npy_find_dict(std::span<unsigned char const> start, std::size_t file_size,
                                              std::string_view where) {
  constexpr unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (file_size == 0) npy_refuse(where, "the file is empty");
  if (start.size() < sizeof(magic) || std::memcmp(start.data(), magic, sizeof(magic)) != 0) {
    npy_refuse(where, "it does not begin like a .npy file; save it with numpy.save");
  }
  if (start.size() < 10) npy_refuse(where, "the file ends within its header: it is truncated");
  const unsigned major = start[6];
  const unsigned minor = start[7];
  if (major < 1 || major > 3 || minor != 0) {
    npy_refuse(where,
               "format version " + std::to_string(major) + "." + std::to_string(minor) + " is none of 1.0, 2.0, 3.0");
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  if (start.size() < begin) npy_refuse(where, "the file ends within its header: it is truncated");
  std::size_t size = start[8] | static_cast<std::size_t>(start[9]) << 8;
  if (major > 1) size |= static_cast<std::size_t>(start[10]) << 16 | static_cast<std::size_t>(start[11]) << 24;
  if (size > file_size - begin) {
    npy_refuse(where, "the header claims " + std::to_string(size) + " bytes, but only " +
                          std::to_string(file_size - begin) + " follow: the file is damaged or truncated");
  }
  constexpr std::size_t longest = std::size_t{1} << 20;
  if (size > longest)
    npy_refuse(where, "the header claims " + std::to_string(size) + " bytes; no plain array needs that");
  return {begin, size};
}

/// Reads the dict and checks that the file holds exactly the elements it declares. Allocates nothing in their number.
[[nodiscard]] inline npy_header npy_read_header(npy_extent place, std::string_view dict, std::size_t file_size,
                                                std::string_view where) {
  npy_header header;
  npy_dict_reader(dict, where).read(header);
  // Extents beside a zero must fit too: strides are made of them.
  index_t product = static_cast<index_t>(npy_size(header.type));
  bool empty = false;
  for (index_t extent : header.shape) {
    if (extent == 0) empty = true;
    product = saturating_mul(product, extent == 0 ? 1 : extent);
  }
  const std::string declared = std::string(npy_code(header.type)) + " " + npy_shape_text(header.shape);
  if (product == INT64_MAX) npy_refuse(where, "the shape overflows 64 bits: " + declared);
  header.data_begin = place.begin + place.size;
  header.data_size = empty ? 0 : static_cast<std::size_t>(product);
  const std::size_t present = file_size - header.data_begin;
  if (present < header.data_size) {
    npy_refuse(where, "it declares " + declared + ", " + std::to_string(header.data_size) + " bytes, but holds " +
                          std::to_string(present) + ": the file is truncated");
  }
  if (present > header.data_size) {
    npy_refuse(where, "it declares " + declared + ", " + std::to_string(header.data_size) + " bytes, but " +
                          std::to_string(present - header.data_size) +
                          " more follow: the file is damaged, or several arrays were saved into one file");
  }
  return header;
}

/// Magic, version, length and dict, padded as NumPy pads it: the data begin at a multiple of 64 bytes.
[[nodiscard]] inline std::string npy_format_header(npy_type type, bool big_endian, bool fortran_order,
                                                   std::vector<index_t> const& shape, npy_version version) {
  const char order = npy_size(type) == 1 ? '|' : (big_endian ? '>' : '<');
  std::string dict = "{'descr': '";
  dict += order;
  dict += std::string(npy_code(type)) + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
          ", 'shape': " + npy_shape_text(shape) + ", }";
  const std::size_t begin = version == npy_version::v1 ? 10 : 12;
  while ((begin + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';

  std::string text("\x93NUMPY", 6);
  text += static_cast<char>(version);
  text += '\0';
  for (std::size_t byte = 0; byte < begin - 8; ++byte) {
    text += static_cast<char>(static_cast<unsigned char>(dict.size() >> (8 * byte)));
  }
  return text + dict;
}

}  // namespace HEED_ABI
}  // namespace detail
}  // namespace heed
