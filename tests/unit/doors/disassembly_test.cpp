// One unknown word in a target attribute drops the whole attribute without a warning, and the kernels then run, right
// and slow, on the baseline. So this program disassembles itself and looks at its own doors.
#include "support/disassembly.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/heed.hpp"

namespace {

using disassembly::routine;

std::vector<routine> const& own_routines() {
  static const auto routines = disassembly::disassemble(HEED_OBJDUMP, disassembly::own_path());
  return routines;
}

// "heed::detail::v0_1_base::v3::scores<float, 3>(...)" -> "scores", when the level is "v3"; else "".
std::string door_name(std::string const& function, std::string const& level) {
  if (function.find("heed::") == std::string::npos) return {};
  const std::string room = "::" + level + "::";
  const auto arguments = function.find('(');
  const auto at = function.rfind(room, function.find('<'));
  if (at == std::string::npos || at > arguments) return {};
  const auto begin = at + room.size();
  return function.substr(begin, function.find_first_of("<(", begin) - begin);
}

bool is_door(std::string const& function, std::vector<std::string> const& levels) {
  return std::any_of(levels.begin(), levels.end(),
                     [&](std::string const& level) { return !door_name(function, level).empty(); });
}

// Calls that make every door: each accumulate type, pairs of bfloat16, a mask, both outputs.
TEST(Doors, AreAllInThisProgram) {
  heed::tensor<float, 4> query({1, 2, 5, 8}), key({1, 2, 7, 8}), value({1, 2, 7, 8}), out({1, 2, 5, 8});
  heed::tensor<float, 4> weights({1, 2, 5, 7});
  heed::attention(query, key, value, heed::into(out).weights(weights), heed::causal{});
  heed::tensor<double, 4> wide_query({1, 2, 5, 8}), wide_out({1, 2, 5, 8});
  heed::attention(wide_query, key, value, wide_out, heed::causal{});
  heed::tensor<heed::bfloat16, 4> narrow({1, 2, 9, 8});
  (void)heed::attention(narrow, narrow, narrow);
  EXPECT_EQ(out(0, 0, 0, 0), 0.0f);
  ASSERT_GT(own_routines().size(), 50u) << "objdump found nothing: " << HEED_OBJDUMP;
}

// Where the loops of a verb lie in the lines of code must not be the linker's choice.
TEST(Doors, BeginWithALine) {
  int seen = 0;
  for (routine const& r : own_routines()) {
    if (!is_door(r.name, {"v1", "v3", "v4", "v4_columns", "v4_bf16", "v4_amx"}) ||
        r.name.find("[clone") != std::string::npos)
      continue;
    ++seen;
    EXPECT_EQ(r.address % 64, 0u) << r.name;
  }
  EXPECT_GE(seen, 10);
}

#if defined(__x86_64__)

// What every level must have, and what each of them computes on.
const std::vector<std::string> arithmetic_doors = {"scores",        "softmax", "accumulate",
                                                   "probabilities", "finish",  "drop"};

// A line that the compiler wrote on whole registers; the splat and the maximum may be asm of the source.
bool computes_on(routine const& r, std::string const& register_name) {
  return std::any_of(r.lines.begin(), r.lines.end(), [&](std::string const& line) {
    return line.find(register_name) != std::string::npos && !line.starts_with("vbroadcast") &&
           !line.starts_with("vmaxp");
  });
}

void expect_registers(std::string const& level, std::string const& register_name) {
  std::map<std::string, int> seen;
  for (routine const& r : own_routines()) {
    const std::string door = door_name(r.name, level);
    for (auto const& wanted : arithmetic_doors) {
      if (door != wanted) continue;
      ++seen[door];
      EXPECT_TRUE(computes_on(r, register_name)) << r.name << " does not use " << register_name;
    }
  }
  for (auto const& wanted : arithmetic_doors) EXPECT_GE(seen[wanted], 2) << level << "::" << wanted;
}

#if defined(__OPTIMIZE__)
TEST(Doors, OfV3AndV4FuseMultiplyAndAdd) {
  for (auto const& [level, register_name, count] :
       {std::tuple("v3", "%ymm", 12), std::tuple("v4", "%zmm", 12), std::tuple("v4_columns", "%zmm", 2)}) {
    int seen = 0;
    for (routine const& r : own_routines()) {
      const std::string door = door_name(r.name, level);
      if (door != "scores" && door != "accumulate") continue;
      ++seen;
      const std::string fused = disassembly::line_with(r, "vfmadd");
      EXPECT_NE(fused.find(register_name), std::string::npos) << r.name << ": " << fused;
    }
    EXPECT_GE(seen, count) << level;
  }
}
#endif

// Products of 32 bits, of which no expression on vectors speaks.
TEST(Doors, OfDropMultiplyWholeVectors) {
  for (auto const& [level, register_name] : {std::pair("v3", "%ymm"), std::pair("v4", "%zmm")}) {
    for (routine const& r : own_routines()) {
      if (door_name(r.name, level) != "drop") continue;
      const std::string product = disassembly::line_with(r, "vpmuludq");
      EXPECT_NE(product.find(register_name), std::string::npos) << r.name << ": " << product;
    }
  }
}

TEST(Doors, OfBf16MultiplyPairsOrTiles) {
  for (auto const& [level, instruction] : {std::pair("v4_bf16", "vdpbf16ps"), std::pair("v4_amx", "tdpbf16ps")}) {
    int seen = 0;
    for (routine const& r : own_routines()) {
      const std::string door = door_name(r.name, level);
      if (door != "scores" && door != "accumulate") continue;
      ++seen;
      EXPECT_NE(disassembly::line_with(r, instruction), "") << r.name;
      EXPECT_NE(disassembly::line_with(r, "%zmm"), "") << r.name;
    }
    EXPECT_EQ(seen, 6) << level;
  }
}

// Tiles that a verb leaves open would be the state of whatever runs next.
TEST(Doors, OfAmxReleaseTheirTiles) {
  for (routine const& r : own_routines()) {
    if (door_name(r.name, "v4_amx").empty() || disassembly::line_with(r, "ldtilecfg").empty()) continue;
    EXPECT_NE(disassembly::line_with(r, "tilerelease"), "") << r.name;
  }
}

TEST(Doors, OfV4ComputeOnZmm) { expect_registers("v4", "%zmm"); }

TEST(Doors, OfV3ComputeOnYmmAndNeverOnZmm) {
  expect_registers("v3", "%ymm");
  for (routine const& r : own_routines()) {
    if (door_name(r.name, "v3").empty()) continue;
    EXPECT_EQ(disassembly::line_with(r, "%zmm"), "") << r.name;
  }
}

#if !defined(__AVX__)
TEST(Doors, OfV1ComputeOnXmm) {
  expect_registers("v1", "%xmm");
  for (routine const& r : own_routines()) {
    if (door_name(r.name, "v1").empty()) continue;
    EXPECT_EQ(disassembly::line_beyond_sse(r), "") << r.name;
  }
}

TEST(Code, OutsideTheDoorsIsBaseline) {
  std::size_t seen = 0;
  for (routine const& r : own_routines()) {
    if (r.name.find("heed::") == std::string::npos) continue;
    if (is_door(r.name, {"v3", "v4", "v4_columns", "v4_bf16", "v4_amx"})) continue;
    ++seen;
    EXPECT_EQ(disassembly::line_beyond_sse(r), "") << r.name;
  }
  EXPECT_GT(seen, 10u);
}
#endif

// A door that calls a helper passes packs through memory or, worse, through registers of another level.
TEST(Doors, CallNothingOfTheHouse) {
  for (char const* level : {"v1", "v3", "v4", "v4_columns", "v4_bf16", "v4_amx"}) {
    for (routine const& r : own_routines()) {
      if (door_name(r.name, level).empty()) continue;
      for (auto const& line : r.lines) {
        EXPECT_FALSE(line.starts_with("call") && line.find("heed::") != std::string::npos) << r.name << ": " << line;
      }
    }
  }
}

#elif defined(__aarch64__)

TEST(Doors, OfNeonComputeOnWholeVectors) {
  std::map<std::string, int> seen;
  for (routine const& r : own_routines()) {
    const std::string door = door_name(r.name, "v1");
    if (door != "scores" && door != "accumulate") continue;
    ++seen[door];
    const bool multiplies = !disassembly::line_with(r, "fmla").empty() || !disassembly::line_with(r, "fmul").empty();
    EXPECT_TRUE(multiplies) << r.name;
  }
  EXPECT_GE(seen["scores"], 2);
  EXPECT_GE(seen["accumulate"], 2);
}

#endif

}  // namespace
