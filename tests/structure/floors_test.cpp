// Folders are floors: a file includes its own floor and lower ones, and never in a circle.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "structure/source_tree.hpp"

namespace {

using structure::at;

// base <- view <- mask, score, softmax <- reference | cpu | cuda <- front doors <- layer, approx <- the rest
const std::map<std::string, int> floors = {
    {"base", 0}, {"view", 1}, {"mask", 2},  {"score", 2},  {"softmax", 2},  {"reference", 3}, {"cpu", 3},
    {"cuda", 3}, {"", 4},     {"layer", 5}, {"approx", 5}, {"analysis", 6}, {"interop", 6},   {"distributed", 6},
};
const std::set<std::string> rooms_apart = {"reference", "cpu", "cuda"};

constexpr char house[] = "include/heed/";

// "include/heed/mask/causal.hpp" -> "mask"; a file directly under include/heed is a front door, but version.hpp lies
// under everything.
std::string room_of(std::string const& path) {
  const std::string inside = path.substr(sizeof house - 1);
  if (inside == "version.hpp") return "base";
  const auto slash = inside.find('/');
  return slash == std::string::npos ? "" : inside.substr(0, slash);
}

// The text of a header by its path; empty when there is none.
std::map<std::string, std::string> texts() {
  std::map<std::string, std::string> all;
  for (auto const& file : structure::headers()) all[file.path] = file.text;
  return all;
}

std::vector<std::string> own_includes(std::string const& text) {
  std::vector<std::string> found;
  for (auto const& include : structure::includes_of(text)) {
    if (include.target.starts_with("heed/")) found.push_back("include/" + include.target);
  }
  return found;
}

TEST(Floors, AreAllKnown) {
  const auto all = texts();
  ASSERT_GT(all.size(), 10u) << "the headers were not found";
  for (auto const& [path, text] : all) {
    EXPECT_TRUE(floors.contains(room_of(path))) << path << ": this folder has no floor; see tests/structure";
  }
}

TEST(Floors, AreNeverIncludedUpward) {
  for (auto const& [path, text] : texts()) {
    const std::string room = room_of(path);
    for (auto const& include : structure::includes_of(text)) {
      if (!include.target.starts_with("heed/")) continue;
      const std::string target_room = room_of("include/" + include.target);
      ASSERT_TRUE(floors.contains(room) && floors.contains(target_room)) << path;
      EXPECT_LE(floors.at(target_room), floors.at(room)) << at(path, include.line) << "includes upward";
      if (rooms_apart.contains(room) && rooms_apart.contains(target_room)) {
        EXPECT_EQ(room, target_room) << at(path, include.line) << room << " and " << target_room << " stay apart";
      }
    }
  }
}

TEST(Includes, OfTheHouseExistAndAreSpelledFromItsRoot) {
  const auto all = texts();
  for (auto const& [path, text] : all) {
    for (auto const& include : structure::includes_of(text)) {
      if (include.quoted) {
        EXPECT_TRUE(include.target.starts_with("heed/")) << at(path, include.line) << "write \"heed/...\"";
        EXPECT_TRUE(all.contains("include/" + include.target)) << at(path, include.line) << "no such header";
      } else {
        EXPECT_FALSE(include.target.starts_with("heed/")) << at(path, include.line) << "write \"heed/...\"";
      }
    }
  }
}

// Depth first; `trail` is the way from the start to the present header.
void expect_no_circle(std::map<std::string, std::string> const& all, std::string const& path,
                      std::vector<std::string>& trail, std::set<std::string>& done) {
  if (done.contains(path) || !all.contains(path)) return;
  for (auto const& above : trail) {
    if (above == path) {
      ADD_FAILURE() << "a circle of includes through " << path;
      return;
    }
  }
  trail.push_back(path);
  for (auto const& next : own_includes(all.at(path))) expect_no_circle(all, next, trail, done);
  trail.pop_back();
  done.insert(path);
}

TEST(Includes, MakeNoCircle) {
  const auto all = texts();
  std::set<std::string> done;
  for (auto const& [path, text] : all) {
    std::vector<std::string> trail;
    expect_no_circle(all, path, trail, done);
  }
}

// The headers that heed.hpp brings along.
std::set<std::string> reached_by_the_umbrella(std::map<std::string, std::string> const& all) {
  std::set<std::string> reached;
  std::vector<std::string> open = {"include/heed/heed.hpp"};
  while (!open.empty()) {
    const std::string path = open.back();
    open.pop_back();
    if (!all.contains(path) || !reached.insert(path).second) continue;
    for (auto const& next : own_includes(all.at(path))) open.push_back(next);
  }
  return reached;
}

// What is slow to include, or brings statics and names that a user did not ask for.
TEST(Includes, OfTheCoreAreLight) {
  const std::set<std::string> nowhere = {"iostream", "regex"};
  const std::set<std::string> not_in_the_core = {"ranges", "immintrin.h", "x86intrin.h", "thread",    "mutex",
                                                 "atomic", "memory",      "algorithm",   "functional"};
  const std::set<std::string> not_behind_the_umbrella = {"cmath",
                                                         "numeric",
                                                         "sstream",
                                                         "iomanip",
                                                         "fstream",
                                                         "filesystem",
                                                         "format",
                                                         "map",
                                                         "random",
                                                         "shared_mutex",
                                                         "condition_variable",
                                                         "future",
                                                         "chrono",
                                                         "unordered_map",
                                                         "set"};
  const auto all = texts();
  const auto reached = reached_by_the_umbrella(all);
  for (auto const& [path, text] : all) {
    const bool core = floors.at(room_of(path)) <= floors.at("");
    for (auto const& include : structure::includes_of(text)) {
      const std::string where = at(path, include.line) + "<" + include.target + ">";
      EXPECT_FALSE(nowhere.contains(include.target)) << where;
      EXPECT_FALSE(core && not_in_the_core.contains(include.target)) << where;
      EXPECT_FALSE(reached.contains(path) && not_behind_the_umbrella.contains(include.target))
          << where << " costs every user of heed.hpp";
    }
  }
}

TEST(Umbrella, ReachesTheCoreAndNoOtherPackage) {
  const auto reached = reached_by_the_umbrella(texts());
  EXPECT_GT(reached.size(), 10u);
  for (auto const& path : reached) {
    const std::string room = room_of(path);
    EXPECT_FALSE(room == "interop" || room == "analysis" || room == "distributed" || room == "cuda")
        << path << " is reached from heed.hpp";
  }
}

}  // namespace
