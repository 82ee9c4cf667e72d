// report: where a check says which rule a call broke. The text is formatted only when somebody will read it.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

#include "heed/base/error.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

class report {
 public:
  /// `function` opens every text; without `text` only the code is kept.
  explicit report(char const* function, std::string* text = nullptr) noexcept : function_(function), text_(text) {}

  [[nodiscard]] errc code() const noexcept { return code_; }

  /// Notes a broken rule and returns false, so that a check reads `return broken.fail(...)`.
  [[gnu::cold, gnu::noinline, gnu::format(printf, 3, 4)]] bool fail(errc code, char const* format, ...) {
    code_ = code;
    if (text_ != nullptr) {
      char line[600];
      std::va_list arguments;
      va_start(arguments, format);
      std::vsnprintf(line, sizeof line, format, arguments);
      va_end(arguments);
      // Members of std::string are in its library; the operator + would be compiled here, for this unit's -march.
      text_->assign(function_);
      text_->append(": ");
      text_->append(line);
    }
    return false;
  }

 private:
  char const* function_;
  std::string* text_;
  errc code_ = errc::ok;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
