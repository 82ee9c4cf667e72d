// Few query rows, which run on kernels or tiles of their own: against the reference, in every type.
#include <gtest/gtest.h>

#include "support/few_rows_scenario.hpp"
#include "support/run_scenario.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class Q, class K, class V, class O, rules Choice = rules::few>
void run(std::uint64_t first, std::uint64_t count, scenario (*draw)(std::uint64_t) = decode_scenario) {
  if (char const* const seed = std::getenv("HEED_ORACLE_SEED")) {
    run_scenario<Q, K, V, O, Choice>(draw(std::strtoull(seed, nullptr, 10)));
    return;
  }
  if (char const* const times = std::getenv("HEED_ORACLE_TIMES")) count *= std::strtoull(times, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; seed += thinned) {
    scenario s = draw(seed);
    if (Choice == rules::few && seed % 2 == 0) s.rule = rule_kind::none;
    run_scenario<Q, K, V, O, Choice>(s);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(OracleDecode, Float) { run<float, float, float, float, rules::all>(70000, 300); }
TEST(OracleDecode, Double) { run<double, double, double, double>(71000, 60); }
TEST(OracleDecode, Half) { run<half, half, half, half>(72000, 60); }
TEST(OracleDecode, Bfloat16) { run<bfloat16, bfloat16, bfloat16, bfloat16>(73000, 60); }
TEST(OracleDecode, KeyAndValueDiffer) { run<float, bfloat16, float, float>(74000, 60); }
TEST(OracleDecode, EveryOperandItsOwnType) { run<bfloat16, float, half, double>(75000, 60); }
TEST(OracleDecode, WiderCache) { run<float, double, double, half>(76000, 40); }
TEST(OracleDecode, DoubleQueryNarrowCache) { run<double, half, bfloat16, float>(77000, 40); }

TEST(OracleHalfVector, Float) { run<float, float, float, float, rules::all>(78000, 300, half_vector_scenario); }
TEST(OracleHalfVector, Half) { run<half, half, half, half>(78500, 60, half_vector_scenario); }
TEST(OracleHalfVector, Bfloat16) { run<bfloat16, bfloat16, bfloat16, bfloat16>(79000, 60, half_vector_scenario); }
TEST(OracleHalfVector, EveryOperandItsOwnType) { run<float, double, half, bfloat16>(79500, 60, half_vector_scenario); }

}  // namespace
