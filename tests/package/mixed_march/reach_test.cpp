// Translation units of different -march in one program: the linker keeps one copy of each function, and a baseline unit
// that is handed the AVX copy dies on an older processor. So: whatever the baseline unit can reach by calls, outside
// the doors, must be baseline code.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/disassembly.hpp"

namespace {

using disassembly::routine;

// A door runs only where active_isa says that the processor has its instructions.
bool is_door(std::string const& name) {
  return name.find("heed::") != std::string::npos &&
         (name.find("::v3::") != std::string::npos || name.find("::v4::") != std::string::npos);
}

class MixedMarch : public testing::TestWithParam<char const*> {};

TEST_P(MixedMarch, BaselineUnitReachesBaselineCodeOnly) {
  const std::string path = std::string(HEED_MIXED_FOLDER "/mixed_march_") + GetParam();
  const auto routines = disassembly::disassemble(HEED_OBJDUMP, path);
  std::vector<std::size_t> open;
  bool has_avx = false;
  for (std::size_t i = 0; i < routines.size(); ++i) {
    if (routines[i].name == "unit_baseline()") open.push_back(i);
    if (!is_door(routines[i].name) && !disassembly::line_beyond_sse(routines[i]).empty()) has_avx = true;
  }
  ASSERT_EQ(open.size(), 1u) << path << " has no unit_baseline()";
  EXPECT_TRUE(has_avx) << "the other unit has no AVX code either: nothing was tested";

  std::map<std::size_t, std::size_t> reached_from = {{open[0], open[0]}};
  while (!open.empty()) {
    const std::size_t from = open.back();
    open.pop_back();
    routine const& r = routines[from];
    if (is_door(r.name)) continue;
    EXPECT_EQ(disassembly::line_beyond_sse(r), "")
        << r.name << "\n  reached from " << routines[reached_from[from]].name << "\n  in " << path;
    for (const auto target : r.targets) {
      const auto to = disassembly::routine_at(routines, target);
      if (to < 0 || !reached_from.emplace(to, from).second) continue;
      open.push_back(static_cast<std::size_t>(to));
    }
  }
  std::size_t of_the_house = 0;
  for (auto const& [index, from] : reached_from)
    of_the_house += routines[index].name.find("heed::") != std::string::npos;
  EXPECT_GT(of_the_house, 5u) << "the walk did not get into heed";
}

TEST_P(MixedMarch, BothUnitsGiveTheSameResult) {
  const std::string program = std::string(HEED_MIXED_FOLDER "/mixed_march_") + GetParam();
  EXPECT_EQ(std::system((program + " " HEED_MIXED_UNITS).c_str()), 0) << program;
}

const auto name = [](auto const& parameter) { return std::string(parameter.param); };
INSTANTIATE_TEST_SUITE_P(Programs, MixedMarch, testing::Values("O0_avx_first", "O0_baseline_first"), name);
#if defined(__clang__)
INSTANTIATE_TEST_SUITE_P(Optimised, MixedMarch, testing::Values("O2_avx_first", "O2_baseline_first"), name);
#else
INSTANTIATE_TEST_SUITE_P(Optimised, MixedMarch, testing::Values("lto_avx_first", "lto_baseline_first"), name);
#endif

}  // namespace
