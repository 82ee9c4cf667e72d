// staged_file: whole or not at all.
#include "heed/interop/staged_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace {

namespace fs = std::filesystem;

class StagedFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "heed-staged-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(std::string const& name) const { return (folder_ / name).string(); }
  void put(std::string const& name, std::string const& text) const { std::ofstream(path(name)) << text; }
  std::string text(std::string const& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

 private:
  fs::path folder_;
};

TEST_F(StagedFile, AppearsWithCommit) {
  heed::staged_file file(path("new"));
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path("new")));
  file.commit();
  EXPECT_EQ(text("new"), "one two");
  EXPECT_EQ(files(), 1);
}

TEST_F(StagedFile, LeavesNothingWithoutCommit) {
  put("old", "before");
  {
    heed::staged_file file(path("old"));
    file.write("after");
    heed::staged_file other(path("new"));
    EXPECT_EQ(files(), 3);
  }
  EXPECT_EQ(text("old"), "before");
  EXPECT_EQ(files(), 1);
}

TEST_F(StagedFile, ReplacesAndKeepsPermissions) {
  put("old", "before, and longer");
  fs::permissions(path("old"), fs::perms::owner_read | fs::perms::owner_write);
  heed::staged_file file(path("old"));
  file.write("after");
  file.commit();
  EXPECT_EQ(text("old"), "after");
  EXPECT_EQ(fs::status(path("old")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(StagedFile, FollowsALink) {
  put("old", "before");
  fs::create_symlink("old", path("link"));
  heed::staged_file file(path("link"));
  file.write("after");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text("old"), "after");
}

TEST_F(StagedFile, MovesWithItsFile) {
  heed::staged_file first(path("new"));
  first.write("text");
  heed::staged_file second(std::move(first));
  first.commit();  // nothing is left to commit there
  EXPECT_FALSE(fs::exists(path("new")));
  second.commit();
  EXPECT_EQ(text("new"), "text");
}

TEST_F(StagedFile, TwoOfOneNameDoNotMix) {
  heed::staged_file first(path("new"));
  heed::staged_file second(path("new"));
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(text("new"), "first");
  EXPECT_EQ(files(), 1);
}

TEST_F(StagedFile, RefusesWhatARenameWouldDestroy) {
  fs::create_directory(path("folder"));
  for (std::string const& place : {path("folder"), std::string("/dev/null"), path("no/such/folder"), std::string()}) {
    try {
      heed::staged_file file(place);
      ADD_FAILURE() << place << " was accepted";
    } catch (heed::error const& error) {
      EXPECT_EQ(error.code(), heed::errc::bad_file);
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(StagedFile, SaysWhenItCannotWriteOn) {
  put("old", "before");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 4;  // stands for a full disk
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  std::string message;
  try {
    heed::staged_file file(path("old"));
    file.write("more than four bytes");
    file.commit();
  } catch (heed::error const& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find(path("old")), std::string::npos) << message;
  EXPECT_EQ(text("old"), "before");
  EXPECT_EQ(files(), 1);
}

}  // namespace
