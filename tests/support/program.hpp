// Runs a program in a folder of its own and collects what it says.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heed::test {

struct outcome {
  int status = -1;  // the exit status, or 128 + the signal
  std::string out, err;
};

/// A folder that is gone with the test.
class workplace {
 public:
  workplace() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-program-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~workplace() { std::filesystem::remove_all(path_); }
  workplace(workplace const&) = delete;
  workplace& operator=(workplace const&) = delete;

  std::string file(std::string const& name) const { return (path_ / name).string(); }
  std::string text(std::string const& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(std::string const& name, std::string const& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }
  /// Every file with its content: two of these are equal iff nothing was touched.
  std::map<std::string, std::string> content() const {
    std::map<std::string, std::string> found;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(path_)) {
      const std::string name = std::filesystem::relative(entry.path(), path_).string();
      found[name] = entry.is_regular_file() ? text(name) : "(not a file)";
    }
    return found;
  }

  /// `environment` is set on top of this process's own.
  outcome run(std::string const& program, std::vector<std::string> words,
              std::vector<std::pair<std::string, std::string>> const& environment = {}) const {
    const workplace desk;
    const std::string out = desk.file("out"), err = desk.file("err");
    words.insert(words.begin(), program);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_RDONLY), 0);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
      for (auto const& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      if (::chdir(path_.c_str()) == 0) ::execv(program.c_str(), pointers.data());
      ::_exit(127);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return {};
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), desk.text("out"), desk.text("err")};
  }

 private:
  std::filesystem::path path_;
};

}  // namespace heed::test
