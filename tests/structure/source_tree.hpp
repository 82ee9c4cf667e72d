// The files of the project as text and tokens, for the tests that judge how the house is kept.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

struct source_file {
  std::string path;  // relative to the root of the project, with forward slashes
  std::string text;
};

inline std::string read_text(std::filesystem::path const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// All files below `folder` whose names end in one of `endings`, sorted.
inline std::vector<source_file> files_below(std::string const& folder, std::vector<std::string> const& endings) {
  namespace fs = std::filesystem;
  const fs::path root = HEED_SOURCE_DIR;
  std::vector<source_file> files;
  if (!fs::exists(root / folder)) return files;
  for (auto const& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string path = fs::relative(entry.path(), root).generic_string();
    const bool wanted =
        std::any_of(endings.begin(), endings.end(), [&](std::string const& ending) { return path.ends_with(ending); });
    if (entry.is_regular_file() && wanted) files.push_back({path, read_text(entry.path())});
  }
  std::sort(files.begin(), files.end(), [](auto const& a, auto const& b) { return a.path < b.path; });
  return files;
}

inline std::vector<source_file> headers() { return files_below("include/heed", {".hpp", ".cuh"}); }

inline std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::string::size_type begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The text with comments, string and character literals blanked out; line breaks stay where they are.
inline std::string code_of(std::string const& text) {
  std::string code = text;
  auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < code.size(); ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
  };
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t end = i + 1;
    if (text.compare(i, 2, "//") == 0) {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (text.compare(i, 2, "/*") == 0) {
      end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
      blank(i, end);
    } else if (text.compare(i, 2, "R\"") == 0 && (i == 0 || !is_word(text[i - 1]))) {
      const auto open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      end = std::min(text.find(close, open), text.size() - close.size()) + close.size();
      blank(i, end);
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2u : 1u;
      ++end;
      blank(i, end);
    }
    i = end;
  }
  return code;
}

struct identifier {
  std::string name;
  std::size_t line;  // from 1
  char next;         // the first character behind it that is no space
};

/// The identifiers of a text that code_of has cleaned; numbers with their suffixes are none.
inline std::vector<identifier> identifiers_of(std::string const& code) {
  std::vector<identifier> found;
  std::size_t line = 1;
  std::size_t i = 0;
  while (i < code.size()) {
    const char c = code[i];
    if (c == '\n') ++line;
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') {
      ++i;
      continue;
    }
    std::size_t end = i;
    const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) != 0 || code[end] == '_' ||
                                 (number && (code[end] == '.' || code[end] == '\'')))) {
      ++end;
    }
    if (!number) {
      const auto next = code.find_first_not_of(" \t\n", end);
      found.push_back({code.substr(i, end - i), line, next == std::string::npos ? '\0' : code[next]});
    }
    i = end;
  }
  return found;
}

struct include_line {
  std::string target;
  bool quoted;
  std::size_t line;
};

inline std::vector<include_line> includes_of(std::string const& text) {
  std::vector<include_line> found;
  std::size_t number = 0;
  for (std::string const& line : lines_of(text)) {
    ++number;
    const auto hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const auto word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const auto open = line.find_first_of("<\"", word + 7);
    if (open == std::string::npos) continue;
    const auto close = line.find(line[open] == '<' ? '>' : '"', open + 1);
    found.push_back({line.substr(open + 1, close - open - 1), line[open] == '"', number});
  }
  return found;
}

inline std::string at(std::string const& path, std::size_t line) { return path + ":" + std::to_string(line) + ": "; }

}  // namespace structure
