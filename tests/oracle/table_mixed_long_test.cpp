// Operands of different types against the reference, and the compiler's own 16-bit type where it has one.
#include <gtest/gtest.h>

#include "support/run_scenario.hpp"

namespace {

using heed::bfloat16;
using heed::half;
using heed::test::random_scenario;
using heed::test::rule_kind;

/// Few rules and many types.
template <class Q, class K, class V, class O>
void run(std::uint64_t first) {
  for (std::uint64_t seed = first; seed < first + 60; seed += heed::test::thinned) {
    heed::test::scenario s = random_scenario(seed);
    if (s.rule != rule_kind::none && seed % 3 == 0) s.rule = rule_kind::none;
    heed::test::run_scenario<Q, K, V, O, heed::test::rules::few>(s);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(OracleMixed, FloatQueryNarrowCache) { run<float, half, half, float>(40000); }
TEST(OracleMixed, FloatQueryKeyAndValueDiffer) { run<float, bfloat16, half, float>(41000); }
TEST(OracleMixed, NarrowQueryWideCache) { run<half, float, float, half>(42000); }
TEST(OracleMixed, NarrowQueryFloatOut) { run<bfloat16, bfloat16, bfloat16, float>(43000); }
TEST(OracleMixed, FloatQueryBfloat16Out) { run<float, float, float, bfloat16>(44000); }
TEST(OracleMixed, FloatQueryDoubleOut) { run<float, float, float, double>(45000); }
TEST(OracleMixed, WiderKeysAndValuesAreRoundedOnLoad) { run<float, double, double, float>(46000); }
TEST(OracleMixed, DoubleQueryFloatCache) { run<double, float, half, double>(47000); }
TEST(OracleMixed, DoubleQueryNarrowOut) { run<double, double, double, half>(48000); }
TEST(OracleMixed, DoubleQueryFloatOut) { run<double, double, bfloat16, float>(49000); }
TEST(OracleMixed, EveryOperandItsOwnType) { run<half, bfloat16, float, double>(50000); }
#if HEED_NATIVE_FLOAT16
using heed::native_float16;
TEST(OracleMixed, NativeFloat16) { run<native_float16, native_float16, native_float16, native_float16>(51000); }
TEST(OracleMixed, NativeFloat16BesideHalf) { run<native_float16, half, native_float16, half>(52000); }
#endif

}  // namespace
