// HEED_ISA: read once, lowered but never raised, and refused with a text that names what is allowed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "heed/heed.hpp"

namespace {

using namespace heed;

TEST(Isa, TheLevelAskedForIsTheLevelThatRuns) {
  char const* const asked = std::getenv("HEED_ISA");
  if (asked != nullptr && asked[0] != '\0') {
    EXPECT_EQ(active_isa(), asked);
  } else {
    EXPECT_TRUE(active_isa() == "v1" || active_isa() == "v3" || active_isa() == "v4" || active_isa() == "neon");
  }
}

TEST(Isa, IsReadOnce) {
  const std::string before(active_isa());
  char const* const asked = std::getenv("HEED_ISA");
  const std::string kept = asked == nullptr ? "" : asked;
  setenv("HEED_ISA", "nonsense", 1);
  EXPECT_EQ(active_isa(), before);
  asked == nullptr ? unsetenv("HEED_ISA") : setenv("HEED_ISA", kept.c_str(), 1);
}

#if defined(__linux__)
/// What a fresh process with this HEED_ISA writes when it runs the test below.
std::string probe(std::string const& level) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    setenv("HEED_ISA", level.c_str(), 1);
    setenv("HEED_TEST_PROBE", "1", 1);
    unsetenv("GTEST_OUTPUT");
    dup2(ends[1], STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    execl("/proc/self/exe", "probe", "--gtest_filter=IsaProbe.Child", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text;
}

TEST(IsaProbe, Child) {
  if (std::getenv("HEED_TEST_PROBE") == nullptr) return;  // the parent's own run
  const tensor<float, 4> x({1, 1, 3, 4});
  tensor<float, 4> out({1, 1, 3, 4});
  out(0, 0, 0, 0) = 777;
  std::string text = "code " + std::to_string(static_cast<int>(validate(x, x, x, out))) + "\n";
  try {
    attention(x, x, x, out);
    text += "ran on " + std::string(active_isa()) + "\n";
  } catch (error const& broken) {
    text += "attention refused " + std::to_string(static_cast<int>(broken.code())) + " " + broken.what() + "\n";
    if (out(0, 0, 0, 0) != 777) text += "and wrote\n";
  }
  try {
    (void)active_isa();
  } catch (error const& broken) {
    text += std::string("active_isa refused ") + broken.what() + "\n";
  }
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

TEST(Isa, AnUnknownLevelIsRefused) {
  for (std::string const level : {"v9", "V3", "avx2", "v", "3", " v1"}) {
    const std::string text = probe(level);
    EXPECT_NE(text.find("code " + std::to_string(static_cast<int>(errc::unknown_isa)) + "\n"), std::string::npos)
        << text;
    EXPECT_NE(text.find("attention refused " + std::to_string(static_cast<int>(errc::unknown_isa)) +
                        " heed::attention: the environment variable HEED_ISA is \"" + level + "\""),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("this machine allows: "), std::string::npos) << text;
    EXPECT_NE(text.find("active_isa refused heed::active_isa: "), std::string::npos) << text;
    EXPECT_EQ(text.find("and wrote"), std::string::npos) << text;
  }
}

TEST(Isa, ALevelThatTheMachineLacksIsRefused) {
#if defined(__x86_64__)
  const std::string level = "neon";
#else
  const std::string level = "v3";
#endif
  const std::string text = probe(level);
  EXPECT_NE(text.find("attention refused " + std::to_string(static_cast<int>(errc::unavailable_isa))),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("HEED_ISA is \"" + level + "\""), std::string::npos) << text;
}

TEST(Isa, AnEmptyVariableIsNone) { EXPECT_NE(probe("").find("ran on "), std::string::npos) << probe(""); }

#if defined(__x86_64__)
TEST(Isa, EveryLevelUpToTheMachineSRuns) {
  EXPECT_NE(probe("v1").find("ran on v1"), std::string::npos) << probe("v1");
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const std::string v3 = probe("v3");
  EXPECT_NE(v3.find(has_v3 ? "ran on v3" : "attention refused"), std::string::npos) << v3;
  const bool has_v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const std::string v4 = probe("v4");
  EXPECT_NE(v4.find(has_v4 ? "ran on v4" : "attention refused"), std::string::npos) << v4;
}
#endif
#endif

}  // namespace
