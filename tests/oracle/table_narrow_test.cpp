// The table of shapes, masks, layouts, grouped heads and anchors against the reference: half and bfloat16.
#include "support/table.hpp"

namespace {

using heed::bfloat16;
using heed::half;
using heed::test::run_scenarios;

TEST(OracleHalf, Random) { run_scenarios<half, half, half, half>(20001, 400); }
HEED_TABLE_TESTS(OracleHalf, half)

TEST(OracleBfloat16, Random) { run_scenarios<bfloat16, bfloat16, bfloat16, bfloat16>(30001, 400); }
HEED_TABLE_TESTS(OracleBfloat16, bfloat16)

}  // namespace
