// staged_file: a file that is written beside its place and moved there whole, or not at all.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "heed/base/error.hpp"

namespace heed {
inline namespace HEED_ABI {

/// Writes into a new file beside `path`; commit() renames it to `path`. Without commit() nothing at `path` changes, and
/// the new file is removed. Readers of `path` see the old content or the new, never a part.
///
/// A symbolic link is followed; an existing file keeps its permissions. A directory, a device or a pipe at `path` is
/// refused, because renaming would replace it.
/// Throws: heed::error (bad_file).
class staged_file {
 public:
  explicit staged_file(std::string path) : path_(std::move(path)) {
    if (path_.empty()) detail::raise(errc::bad_file, "heed::staged_file: the name of the file is empty");
    struct stat old = {};
    const bool exists = ::stat(path_.c_str(), &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
      detail::raise(errc::bad_file, "heed::staged_file: cannot write " + path_ + ": " +
                                        (S_ISDIR(old.st_mode) ? "it is a directory" : "it is not a regular file") +
                                        "; give the name of a file");
    }
    if (exists) {
      if (char* const real = ::realpath(path_.c_str(), nullptr)) {
        target_ = real;
        std::free(real);
      }
    }
    if (target_.empty()) target_ = path_;
    // Another thread or process may stage the same file; O_EXCL makes each of them find a name of its own.
    for (int attempt = 0; descriptor_ < 0 && attempt < 1000; ++attempt) {
      staged_ = target_ + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
      descriptor_ = ::open(staged_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) {
      staged_.clear();
      fail();
    }
    if (exists) (void)::fchmod(descriptor_, old.st_mode & 07777);
  }
  staged_file(staged_file&& other) noexcept
      : path_(std::move(other.path_)),
        target_(std::move(other.target_)),
        staged_(std::exchange(other.staged_, {})),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  staged_file& operator=(staged_file&& other) = delete;
  ~staged_file() { discard(); }

  /// Appends bytes. On a full disk (or any other failure) it throws, and the file beside is removed with the object.
  void write(void const* bytes, std::size_t size) {
    char const* at = static_cast<char const*>(bytes);
    while (size > 0) {
      const ssize_t written = ::write(descriptor_, at, size);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail();
      at += written;
      size -= static_cast<std::size_t>(written);
    }
  }
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Moves the file to its place.
  void commit() {
    if (descriptor_ < 0) return;
    const int closed = ::close(std::exchange(descriptor_, -1));
    if (closed != 0 || std::rename(staged_.c_str(), target_.c_str()) != 0) fail();
    staged_.clear();
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail() const {
    const int reason = errno;
    detail::raise(errc::bad_file, "heed::staged_file: cannot write " + path_ + ": " + std::strerror(reason));
  }
  void discard() noexcept {
    if (descriptor_ >= 0) (void)::close(std::exchange(descriptor_, -1));
    if (!staged_.empty()) (void)::unlink(staged_.c_str());
    staged_.clear();
  }

  std::string path_;
  std::string target_;
  std::string staged_;
  int descriptor_ = -1;
};

}  // namespace HEED_ABI
}  // namespace heed
