// How the files are written: short, ASCII, with names that a user's macros cannot hit.
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "structure/source_tree.hpp"

namespace {

using structure::at;
using structure::source_file;

std::vector<source_file> all_sources() {
  std::vector<source_file> all;
  for (char const* folder : {"include", "tests", "examples", "bench", "cmake"}) {
    for (auto& file : structure::files_below(folder, {".hpp", ".cpp", ".cuh", ".cu", ".cmake", ".txt", ".in", ".sh"})) {
      if (file.path.find("/data/") == std::string::npos) all.push_back(std::move(file));
    }
  }
  return all;
}

TEST(Files, HaveAtMost500Lines) {
  const auto all = all_sources();
  ASSERT_GT(all.size(), 10u);
  for (auto const& file : all) EXPECT_LE(structure::lines_of(file.text).size(), 500u) << file.path;
}

TEST(Files, AreAsciiWithoutTabsAndEndInALineBreak) {
  for (auto const& file : all_sources()) {
    ASSERT_FALSE(file.text.empty()) << file.path;
    EXPECT_EQ(file.text.back(), '\n') << file.path;
    std::size_t line = 1;
    for (const char c : file.text) {
      if (c == '\n') ++line;
      const bool fine = c == '\n' || std::isprint(static_cast<unsigned char>(c)) != 0;
      if (!fine) {
        ADD_FAILURE() << at(file.path, line) << "a character that is not printable ASCII";
        break;
      }
    }
  }
}

TEST(Files, NameNoMachine) {
  // Spelled in two parts, so that this file does not find itself.
  const std::vector<std::string> machines = {std::string("/wo") + "rk/", std::string("/ro") + "ot/",
                                             std::string("/ho") + "me/"};
  for (auto const& file : all_sources()) {
    for (auto const& machine : machines) {
      EXPECT_EQ(file.text.find(machine), std::string::npos) << file.path << " names " << machine;
    }
  }
}

TEST(Files, OfTestsEndInTestSoThatTheyAreBuilt) {
  for (char const* folder : {"tests/unit", "tests/oracle", "tests/property", "tests/gradient", "tests/structure"}) {
    for (auto const& file : structure::files_below(folder, {".cpp"})) {
      EXPECT_TRUE(file.path.ends_with("_test.cpp")) << file.path << ": tests/CMakeLists.txt takes *_test.cpp only";
    }
  }
}

TEST(Examples, AreUnder120Lines) {
  for (auto const& file : structure::files_below("examples", {".cpp", ".hpp"})) {
    EXPECT_LT(structure::lines_of(file.text).size(), 120u) << file.path;
  }
}

TEST(Headers, OpenWithACommentAndPragmaOnce) {
  for (auto const& file : structure::headers()) {
    const auto lines = structure::lines_of(file.text);
    EXPECT_TRUE(lines[0].starts_with("//")) << file.path << ": say in the first line what the file is about";
    std::size_t first = 0;
    while (first < lines.size() && (lines[first].empty() || lines[first].starts_with("//"))) ++first;
    EXPECT_EQ(lines.at(first), "#pragma once") << file.path;
  }
}

TEST(Headers, DefineOnlyHeedMacrosAndOnlyInConfig) {
  for (auto const& file : structure::headers()) {
    const bool may_define = file.path == "include/heed/base/config.hpp" || file.path == "include/heed/version.hpp";
    std::size_t number = 0;
    for (auto const& line : structure::lines_of(structure::code_of(file.text))) {
      ++number;
      const auto hash = line.find_first_not_of(" \t");
      if (hash == std::string::npos || line[hash] != '#') continue;
      const auto word = line.find_first_not_of(" \t", hash + 1);
      if (word == std::string::npos || line.compare(word, 6, "define") != 0) continue;
      EXPECT_TRUE(may_define) << at(file.path, number) << "macros are made in base/config.hpp only";
      EXPECT_EQ(line.compare(line.find_first_not_of(" \t", word + 6), 5, "HEED_"), 0) << at(file.path, number) << line;
    }
  }
}

TEST(Headers, UseNoNameThatIsAMacroElsewhere) {
  for (auto const& file : structure::headers()) {
    std::set<std::string> said;  // once for each name
    for (auto const& word : structure::identifiers_of(structure::code_of(file.text))) {
      const bool capital = word.name.size() == 1 && std::isupper(static_cast<unsigned char>(word.name[0])) != 0;
      const bool old_keyword = word.name == "small" || word.name == "near" || word.name == "far";
      const bool bare_call = (word.name == "min" || word.name == "max") && word.next == '(';
      if (!(capital || old_keyword || bare_call) || !said.insert(word.name).second) continue;
      ADD_FAILURE() << at(file.path, word.line) << word.name
                    << (bare_call ? ": write (std::" + word.name + ")(...)" : " is a macro in somebody's program");
    }
  }
}

TEST(Headers, LeaveNothingOpen) {
  const std::set<std::string> marks = {
      "TO"
      "DO",
      "FIX"
      "ME",
      "X"
      "XX",
      "HA"
      "CK"};
  for (auto const& file : structure::headers()) {
    for (auto const& word : structure::identifiers_of(file.text)) {
      EXPECT_FALSE(marks.contains(word.name)) << at(file.path, word.line) << word.name;
    }
  }
}

// The cleaning itself: a check that blanks too much would find nothing.
TEST(CodeOf, BlanksCommentsAndLiteralsOnly) {
  EXPECT_EQ(structure::code_of("a // N\nb"), "a     \nb");
  EXPECT_EQ(structure::code_of("a /* N\n */ b"), "a     \n    b");
  EXPECT_EQ(structure::code_of("f(\"N\\\"\", 'N', 1'000, N)"), "f(     ,    , 1'000, N)");
  EXPECT_EQ(structure::code_of("a = U'M' + u8\"N\" + 'x';"), "a =      +       +    ;");
  EXPECT_EQ(structure::code_of("R\"(N \" // )\"; T"), "            ; T");
  const auto words = structure::identifiers_of(structure::code_of("1.0F + x(0xFFu) - max (I, \"N\")"));
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[0].name, "x");
  EXPECT_EQ(words[1].name, "max");
  EXPECT_EQ(words[1].next, '(');
  EXPECT_EQ(words[2].name, "I");
}

}  // namespace
