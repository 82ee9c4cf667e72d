// The table of shapes, masks, layouts, grouped heads and anchors against the reference: float.
#include "support/table.hpp"

namespace {

using heed::test::run_scenarios;

TEST(OracleFloat, Random) { run_scenarios<float, float, float, float>(1, 1000); }
HEED_TABLE_TESTS(OracleFloat, float)

}  // namespace
