// A program as the disassembler shows it: its routines, their instructions, and which routine refers to which.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace disassembly {

struct routine {
  std::uint64_t address;
  std::string name;                    // demangled
  std::vector<std::string> lines;      // "mnemonic operands"
  std::vector<std::uint64_t> targets;  // addresses of code and data that it names
};

/// The running program itself.
inline std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// The number before " <symbol>" at the end of an instruction: what it jumps to, calls or takes the address of.
inline bool target_of(std::string const& line, std::uint64_t& target) {
  const auto open = line.find(" <");
  if (open == std::string::npos) return false;
  auto begin = open;
  while (begin > 0 && std::isxdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  if (begin == open) return false;
  target = std::strtoull(line.substr(begin, open - begin).c_str(), nullptr, 16);
  return true;
}

/// The routines of a program or object file in the order of their addresses; empty when `objdump` fails.
inline std::vector<routine> disassemble(std::string const& objdump, std::string const& path) {
  std::vector<routine> routines;
  const std::string command = "'" + objdump + "' -d -C --no-show-raw-insn '" + path + "'";
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return routines;
  char* buffer = nullptr;
  std::size_t capacity = 0;
  for (ssize_t length = getline(&buffer, &capacity, pipe); length > 0; length = getline(&buffer, &capacity, pipe)) {
    std::string line(buffer, static_cast<std::size_t>(length));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    if (line.empty()) continue;
    if (line.ends_with(">:") && std::isxdigit(static_cast<unsigned char>(line[0])) != 0) {
      const auto open = line.find(" <");
      if (open == std::string::npos) continue;
      routines.push_back(
          {std::strtoull(line.c_str(), nullptr, 16), line.substr(open + 2, line.size() - open - 4), {}, {}});
    } else if (line[0] == ' ' && !routines.empty()) {
      const auto tab = line.find('\t');
      if (tab == std::string::npos) continue;
      routines.back().lines.push_back(line.substr(tab + 1));
      std::uint64_t target = 0;
      if (target_of(line, target)) routines.back().targets.push_back(target);
    }
  }
  std::free(buffer);
  if (pclose(pipe) != 0) routines.clear();
  std::sort(routines.begin(), routines.end(), [](auto const& a, auto const& b) { return a.address < b.address; });
  return routines;
}

/// The routine that an address lies in; -1 for data and for what lies before the first routine.
inline std::ptrdiff_t routine_at(std::vector<routine> const& routines, std::uint64_t address) {
  const auto after = std::upper_bound(routines.begin(), routines.end(), address,
                                      [](std::uint64_t value, routine const& r) { return value < r.address; });
  return after - routines.begin() - 1;
}

/// The first line that has `word`; empty when there is none.
inline std::string line_with(routine const& r, std::string const& word) {
  for (auto const& line : r.lines) {
    if (line.find(word) != std::string::npos) return line;
  }
  return {};
}

/// The first line that an x86-64 processor without AVX cannot run: a wide register or a VEX or EVEX mnemonic.
inline std::string line_beyond_sse(routine const& r) {
  for (auto const& line : r.lines) {
    const bool vex = line[0] == 'v' && !line.starts_with("verr") && !line.starts_with("verw");
    const bool wide = line.find("%ymm") != std::string::npos || line.find("%zmm") != std::string::npos;
    const bool bits = line.starts_with("shlx") || line.starts_with("shrx") || line.starts_with("sarx") ||
                      line.starts_with("mulx") || line.starts_with("rorx") || line.starts_with("andn ") ||
                      line.starts_with("bextr") || line.starts_with("bzhi") || line.starts_with("pdep") ||
                      line.starts_with("pext") || line.starts_with("kmov");
    if (vex || wide || bits) return line;
  }
  return {};
}

}  // namespace disassembly
