// The table of shapes, masks, layouts, grouped heads and anchors against the reference in long double: double.
#include "support/table.hpp"

namespace {

using heed::test::run_scenarios;

TEST(OracleDouble, Random) { run_scenarios<double, double, double, double>(10001, 500); }
HEED_TABLE_TESTS(OracleDouble, double)

}  // namespace
