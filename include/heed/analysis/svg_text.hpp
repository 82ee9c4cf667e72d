// Text and numbers for SVG: escaped, valid UTF-8, the same in every locale.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

inline constexpr char32_t replacement_character = 0xfffd;

/// Takes one code point off the front of `text`; for a byte that begins none, that byte and U+FFFD.
[[nodiscard]] inline char32_t take_code_point(std::string_view& text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  std::size_t length = 1;
  char32_t code = lead;
  char32_t lowest = 0;  // a longer form than needed is not valid
  if (lead >= 0xf0 && lead < 0xf8) {
    length = 4, code = lead & 0x07u, lowest = 0x10000;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    length = 3, code = lead & 0x0fu, lowest = 0x800;
  } else if (lead >= 0xc0 && lead < 0xe0) {
    length = 2, code = lead & 0x1fu, lowest = 0x80;
  }
  bool valid = (lead < 0x80 || length > 1) && text.size() >= length;
  for (std::size_t i = 1; valid && i < length; ++i) {
    valid = (byte(i) & 0xc0u) == 0x80u;
    code = (code << 6) | (byte(i) & 0x3fu);
  }
  valid = valid && code >= lowest && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
  text.remove_prefix(valid ? length : 1);
  return valid ? code : replacement_character;
}

inline void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6)), put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12)), put(0x80 | ((code >> 6) & 0x3f)), put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18)), put(0x80 | ((code >> 12) & 0x3f)), put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

/// Text as XML character data or attribute value. What XML cannot hold (control characters, bytes that are not UTF-8)
/// becomes U+FFFD.
[[nodiscard]] inline std::string xml_text(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const char32_t code = take_code_point(text);
    switch (code) {
      case U'&': escaped += "&amp;"; break;
      case U'<': escaped += "&lt;"; break;
      case U'>': escaped += "&gt;"; break;
      case U'"': escaped += "&quot;"; break;
      case U'\'': escaped += "&#39;"; break;
      default: {
        const bool held = code >= 0x20 && !(code >= 0x7f && code < 0xa0) && code != 0xfffe && code != 0xffff;
        append_utf8(escaped, held ? code : replacement_character);
      }
    }
  }
  return escaped;
}

/// The first code points of a text; where some are left off, the last one kept gives way to an ellipsis.
[[nodiscard]] inline std::string shortened(std::string_view text, std::size_t most) {
  std::string kept;
  std::string before_last;
  for (std::size_t count = 0; !text.empty(); ++count) {
    if (count == most) {
      append_utf8(before_last, U'\u2026');
      return before_last;
    }
    before_last = kept;
    append_utf8(kept, take_code_point(text));
  }
  return kept;
}

/// About how wide a text is in a sans-serif font of this size: rather too wide, so that nothing is cut off.
[[nodiscard]] inline double text_width(std::string_view text, double font_size) noexcept {
  double ems = 0;
  while (!text.empty()) {
    const char32_t code = take_code_point(text);
    const bool narrow = code == U'i' || code == U'l' || code == U'j' || code == U'.' || code == U',' || code == U'\'' ||
                        code == U' ' || code == U't' || code == U'f' || code == U'r';
    const bool wide = code >= 0x1100 || code == U'm' || code == U'w' || code == U'M' || code == U'W';
    ems += narrow ? 0.38 : (wide ? 1.0 : 0.64);
  }
  return ems * font_size;
}

/// A number with a point and this many decimals.
[[nodiscard]] inline std::string fixed_text(double value, int decimals) {
  char buffer[400];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, decimals);
  return {buffer, result.ptr};
}

/// The same without the zeros that end it: "0.5", "3".
[[nodiscard]] inline std::string number_text(double value, int decimals) {
  std::string text = fixed_text(value, decimals);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
