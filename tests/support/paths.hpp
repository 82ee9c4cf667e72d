// Which way a call takes, as explain tells: a test of a path first makes sure that it is on it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "heed/heed.hpp"

namespace heed::test {

inline bool has_line(std::string const& text, std::string const& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

/// The number behind "name: ".
inline double number_of(std::string const& text, std::string const& name) {
  const auto place = ("\n" + text).find("\n" + name + ": ");
  return place == std::string::npos ? -1 : std::strtod(text.c_str() + place + name.size() + 2, nullptr);
}

/// Up to four query rows of a head run on kernels of their own at every level but the first, whatever the type.
inline testing::AssertionResult is_decoded(std::string const& text) {
  const bool says = text.find("\ntile: decode, ") != std::string::npos;
  return says == (active_isa() != "v1") ? testing::AssertionSuccess() : testing::AssertionFailure() << text;
}

/// The line of explain for a call that may multiply bfloat16: on the dot product where that is fast.
inline std::string line_of_fast_bf16() {
  const detail::bf16_unit unit = detail::current_bf16_unit();
  return unit == detail::bf16_unit::none    ? "bf16_dot: off"
         : unit == detail::bf16_unit::pairs ? "bf16_dot: on"
                                            : "bf16_dot: on (amx)";
}

/// bfloat16 throughout and many query rows.
template <class T>
testing::AssertionResult is_on_the_fast_dot(std::string const& text) {
  const bool may = element_kind_of<T> == element_kind::bfloat16;
  return has_line(text, may ? line_of_fast_bf16() : "bf16_dot: off") ? testing::AssertionSuccess()
                                                                     : testing::AssertionFailure() << text;
}

inline testing::AssertionResult is_packed_once(std::string const& text) {
  return text.find("\nkey: packed once") != std::string::npos && text.find("\nvalue: packed once") != std::string::npos
             ? testing::AssertionSuccess()
             : testing::AssertionFailure() << text;
}

}  // namespace heed::test
