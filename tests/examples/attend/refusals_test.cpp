// What attend refuses: exit status 2, one clear line on stderr, and no file touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/interop/npy.hpp"
#include "support/program.hpp"

namespace {

using heed::index_t;
using heed::test::outcome;
using heed::test::workplace;
using words = std::vector<std::string>;

const std::string program = HEED_ATTEND_PROGRAM;

class AttendRefuses : public testing::Test {
 protected:
  void SetUp() override {
    heed::save_npy(here.file("q.npy"), heed::tensor<float, 4>({2, 4, 5, 3}));
    heed::save_npy(here.file("k.npy"), heed::tensor<float, 4>({2, 2, 7, 3}));
    heed::save_npy(here.file("v.npy"), heed::tensor<float, 4>({2, 2, 7, 2}));
    heed::save_npy(here.file("packed.npy"), heed::tensor<float, 3>({2, 7, 10}));
    heed::save_npy(here.file("flat.npy"), heed::tensor<float, 1>({7}));
    heed::save_npy(here.file("five.npy"), heed::tensor<float, 4>({2, 5, 7, 3}));
    heed::save_npy(here.file("wide.npy"), heed::tensor<float, 4>({2, 2, 7, 4}));
    heed::save_npy(here.file("short.npy"), heed::tensor<float, 4>({2, 2, 6, 2}));
    heed::save_npy(here.file("bools.npy"), heed::tensor<bool, 4>({2, 4, 5, 3}));
    heed::save_npy(here.file("mask3.npy"), heed::tensor<bool, 3>({2, 5, 7}));
    heed::save_npy(here.file("floats.npy"), heed::tensor<float, 2>({5, 7}));
    const index_t lengths[] = {7, 8, 1};
    heed::save_npy(here.file("long.npy"), heed::tensor_view<index_t const, 1>(lengths, {2}));
    heed::save_npy(here.file("three.npy"), heed::tensor_view<index_t const, 1>(lengths, {3}));
    heed::save_npy(here.file("none.npy"), heed::tensor<index_t, 1>({0}));
    here.put("cut.npy", here.text("q.npy").substr(0, 200));
    here.put("text.npy", "0.5 0.5\n");
    here.put("tokens.txt", "a b c d e f g\n");
    here.put("few.txt", "a b\nc d\n");
    here.put("old.npy", "what was there before");
    here.put("old.svg", "<svg/>");
    std::filesystem::create_directory(here.file("folder"));
  }
  // The names of the files that are not as they were.
  std::string touched(std::map<std::string, std::string> const& before) const {
    const auto after = here.content();
    std::string names;
    for (auto const& [name, text] : after) {
      if (!before.contains(name) || before.at(name) != text) names += name + " ";
    }
    for (auto const& [name, text] : before) {
      if (!after.contains(name)) names += name + " (gone) ";
    }
    return names;
  }

  const workplace here;
};

TEST_F(AttendRefuses, InOneLineAndTouchesNothing) {
  struct {
    words flags;  // on top of sound inputs; a later --query etc. would be a second one, so those are given whole
    char const* says;
  } const cases[] = {
      {{"--frobnicate"}, "--frobnicate"},
      {{"stray"}, "stray"},
      {{"--layout", "dshb"}, "dshb"},
      {{"--layout", "bsd"}, "needs 3 axes"},
      {{"--layout", "sd"}, "needs 2 axes"},
      {{"--heads", "3"}, "has 4 heads, not 3"},
      {{"--heads", "x"}, "--heads"},
      {{"--kv-heads", "4"}, "has 2 heads, not 4"},
      {{"--anchor", "middle"}, "bottom-right, top-left or a whole number"},
      {{"--anchor", "3x"}, "whole number"},
      {{"--scale", "nan"}, "scale"},
      {{"--scale", "inf"}, "scale"},
      {{"--scale", "one"}, "--scale"},
      {{"--threads", "-1"}, "threads"},
      {{"--head", "4"}, "--head 4: there are 4 heads"},
      {{"--head", "-1"}, "--head -1"},
      {{"--batch", "2"}, "--batch 2: there are 2 batch items"},
      {{"--batch", "-1"}, "--batch -1"},
      {{"--key-lengths", "absent.npy"}, "absent.npy"},
      {{"--key-lengths", "three.npy"}, "3 numbers"},
      {{"--key-lengths", "long.npy"}, "8"},
      {{"--key-lengths", "none.npy"}, "none.npy"},
      {{"--key-lengths", "flat.npy"}, "flat.npy"},
      {{"--keep", "floats.npy"}, "floats.npy"},
      {{"--keep", "mask3.npy"}, "(2, 5, 7) does not broadcast"},
      {{"--drop", "bools.npy"}, "(2, 4, 5, 3) does not broadcast"},
      {{"--keep", "mask3.npy", "--drop", "mask3.npy"}, "--keep"},
      {{"--tokens", "absent.txt"}, "absent.txt"},
      {{"--tokens", "few.txt"}, "2 tokens, but 7 keys"},
      {{"--tokens", "tokens.txt", "--batch", "1"}, "no line for batch item 1"},
      {{"--out", "absent/o.npy"}, "no such folder"},
      {{"--out", "folder"}, "--out folder"},
      {{"--picture", "/dev/null"}, "not a file"},
      {{"--out", "o.npy", "--lse", "folder/../o.npy"}, "same file as --out o.npy"},
      {{"--weights", "q.npy"}, "same file as --query q.npy"},
      {{"--out"}, "--out"},
  };
  const auto before = here.content();
  for (auto const& wrong : cases) {
    words all = {"--query", "q.npy", "--key", "k.npy", "--value", "v.npy"};
    const bool has_out = std::find(wrong.flags.begin(), wrong.flags.end(), "--out") != wrong.flags.end();
    if (!has_out) all.insert(all.end(), {"--out", "old.npy"});
    all.insert(all.end(), wrong.flags.begin(), wrong.flags.end());
    std::string trace;
    for (std::string const& word : wrong.flags) trace += word + " ";
    SCOPED_TRACE(trace);
    const outcome refused = here.run(program, all);
    EXPECT_EQ(refused.status, 2) << refused.out;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_EQ(refused.err.find("attend: "), 0u) << refused.err;
    EXPECT_NE(refused.err.find(wrong.says), std::string::npos) << refused.err;
    ASSERT_EQ(touched(before), "");
  }
}

TEST_F(AttendRefuses, FilesThatAreNoTensors) {
  const auto before = here.content();
  struct {
    char const *query, *key, *value, *says;
  } const cases[] = {
      {"absent.npy", "k.npy", "v.npy", "absent.npy"},
      {"q.npy", "absent.npy", "v.npy", "absent.npy"},
      {"cut.npy", "k.npy", "v.npy", "truncated"},
      {"text.npy", "k.npy", "v.npy", "numpy.save"},
      {"folder", "k.npy", "v.npy", "directory"},
      {"flat.npy", "k.npy", "v.npy", "2 to 4 axes"},
      {"bools.npy", "k.npy", "v.npy", "b1 cannot become"},
      {"q.npy", "packed.npy", "v.npy", "needs 4 axes"},
      {"q.npy", "five.npy", "v.npy", "num_kv_heads=5"},
      {"q.npy", "wide.npy", "v.npy", "head_dim_qk"},
      {"q.npy", "k.npy", "short.npy", "seq_len_kv"},
      {"packed.npy", "k.npy", "v.npy", "needs 3 axes"},
      {"old.npy", "old.npy", "old.npy", "does not begin like"},
  };
  for (auto const& wrong : cases) {
    SCOPED_TRACE(std::string(wrong.query) + " " + wrong.key + " " + wrong.value);
    const outcome refused = here.run(program, {"--query", wrong.query, "--key", wrong.key, "--value", wrong.value,
                                               "--lse", "new.npy", "--picture", "old.svg", "--check"});
    EXPECT_EQ(refused.status, 2) << refused.out;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_NE(refused.err.find(wrong.says), std::string::npos) << refused.err;
    ASSERT_EQ(touched(before), "");
  }
}

// The last output fails only when it is written: by then the others lie beside their places, and must vanish again.
TEST_F(AttendRefuses, AllOutputsWhenOneCannotBeWritten) {
  const auto before = here.content();
  const std::string too_long = std::string(250, 'x') + ".svg";
  for (std::string out : {"new.npy", "old.npy"}) {
    const outcome refused = here.run(program, {"--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--out", out,
                                               "--lse", "l.npy", "--picture", too_long});
    EXPECT_EQ(refused.status, 2) << refused.out;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_EQ(touched(before), "");
  }
}

TEST_F(AttendRefuses, HalfACall) {
  for (words const& some : {words{"--query", "q.npy"}, words{"--query", "q.npy", "--key", "k.npy"}, words{"--check"}}) {
    const outcome refused = here.run(program, some);
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.err, "attend: --query, --key and --value are needed\n");
  }
}

TEST_F(AttendRefuses, AnUnknownLevel) {
  const outcome refused = here.run(
      program, {"--query", "q.npy", "--key", "k.npy", "--value", "v.npy", "--out", "o.npy"}, {{"HEED_ISA", "v9"}});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_NE(refused.err.find("v9"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(here.file("o.npy")));
}

}  // namespace
