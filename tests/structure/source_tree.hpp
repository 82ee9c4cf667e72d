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

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The end of the word that begins at `begin`: an identifier, or a number with its suffix, digits parted by ' or dots.
inline std::size_t end_of_word(std::string const& text, std::size_t begin) {
  const bool number = std::isdigit(static_cast<unsigned char>(text[begin])) != 0;
  std::size_t end = begin;
  while (end < text.size() && (is_word(text[end]) || (number && (text[end] == '.' || text[end] == '\'')))) ++end;
  return end;
}

/// The end of the comment or literal that begins at `begin`; `begin` itself where none does.
inline std::size_t end_of_blank(std::string const& text, std::size_t begin, bool raw) {
  const auto behind = [&](std::string const& close, std::size_t from) {
    const auto found = text.find(close, from);
    return found == std::string::npos ? text.size() : found + close.size();
  };
  if (text.compare(begin, 2, "//") == 0) return std::min(text.find('\n', begin), text.size());
  if (text.compare(begin, 2, "/*") == 0) return behind("*/", begin + 2);
  const char quote = text[begin];
  if (quote != '"' && quote != '\'') return begin;
  if (raw) {
    const auto open = text.find('(', begin);
    return behind(")" + text.substr(begin + 1, open - begin - 1) + "\"", open);
  }
  std::size_t end = begin + 1;
  while (end < text.size() && text[end] != quote && text[end] != '\n') end += text[end] == '\\' ? 2u : 1u;
  return std::min(end + 1, text.size());
}

/// The text with comments, string and character literals blanked out; line breaks stay where they are.
inline std::string code_of(std::string const& text) {
  std::string code = text;
  bool raw = false;
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t end = i + 1;
    std::size_t blank_end = i;
    if (is_word(text[i])) {
      end = end_of_word(text, i);
      const std::string word = text.substr(i, end - i);
      const bool before_quote = end < text.size() && (text[end] == '"' || text[end] == '\'');
      raw = before_quote && word.ends_with('R') && word.size() <= 3;
      if (raw || (before_quote && (word == "u8" || word == "u" || word == "U" || word == "L"))) blank_end = end;
    } else {
      blank_end = end_of_blank(text, i, raw);
      end = std::max(end, blank_end);
      raw = false;
    }
    for (; i < blank_end; ++i) {
      if (code[i] != '\n') code[i] = ' ';
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
    if (code[i] == '\n') ++line;
    if (!is_word(code[i])) {
      ++i;
      continue;
    }
    const std::size_t end = end_of_word(code, i);
    if (std::isdigit(static_cast<unsigned char>(code[i])) == 0) {
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
