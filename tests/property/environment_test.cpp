// The caller's floating-point environment neither changes a result nor is changed; subnormal numbers count as 0.
#include <fenv.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>

#include "heed/heed.hpp"
#include "support/cases.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class T>
struct inputs {
  tensor<T, 4> q = pattern<T>(31, 1, {1, 2, 60, 33}, 3), k = pattern<T>(5, 20, {1, 2, 150, 33}, 3),
               v = pattern<T>(7, 30, {1, 2, 150, 33});
};

/// The environment as it was, whatever a test does.
class restored_environment {
 public:
  restored_environment() { fegetenv(&saved_); }
  ~restored_environment() { fesetenv(&saved_); }
  restored_environment(restored_environment const&) = delete;
  restored_environment& operator=(restored_environment const&) = delete;

 private:
  fenv_t saved_;
};

TEST(Environment, RoundingModesOfTheCallerChangeNothingAndStay) {
  for_each_type([]<class T>(T) {
    const inputs<T> in;
    const auto nearest = attend(in.q, in.k, in.v, causal{});
    const auto [nearest_out, nearest_weights] = attention_with_weights(in.q, in.k, in.v, causal{});
    for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
      for (int threads : {1, 2}) {
        const restored_environment restore;
        ASSERT_EQ(fesetround(mode), 0);
        const auto found = attend(in.q, in.k, in.v, causal{}, {.threads = threads});
        const auto [out, weights] = attention_with_weights(in.q, in.k, in.v, causal{}, {.threads = threads});
        EXPECT_EQ(fegetround(), mode);
        EXPECT_TRUE(same_bits(nearest.out, found.out)) << mode;
        EXPECT_TRUE(same_bits(nearest.lse, found.lse)) << mode;
        EXPECT_TRUE(same_bits(nearest_weights, weights)) << mode;
      }
    }
  });
}

TEST(Environment, TheScaleIsRoundedToNearestToo) {
  const auto q = pattern<float>(31, 1, {1, 1, 3, 7}), k = pattern<float>(5, 20, {1, 1, 9, 7});
  const auto nearest = attend(q, k, k, no_mask{}, {.scale = 0.1});
  const restored_environment restore;
  fesetround(FE_UPWARD);
  EXPECT_TRUE(same_bits(nearest.out, attend(q, k, k, no_mask{}, {.scale = 0.1}).out));
}

TEST(Environment, StickyFlagsStayAsTheyWere) {
  const inputs<float> in;
  auto huge = in;
  for (index_t i = 0; i < huge.k.size(); ++i) huge.k.data()[i] *= 1e38f;  // overflows inside
  huge.v.data()[5] = std::nanf("");
  const restored_environment restore;
  for (int before : {0, FE_INEXACT, FE_DIVBYZERO | FE_UNDERFLOW, FE_ALL_EXCEPT}) {
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(before);
    const int raised = fetestexcept(FE_ALL_EXCEPT);
    (void)attend(in.q, in.k, in.v, causal{}, {.threads = 2});
    EXPECT_EQ(fetestexcept(FE_ALL_EXCEPT), raised);
    (void)attend(huge.q, huge.k, huge.v, causal{});
    EXPECT_EQ(fetestexcept(FE_ALL_EXCEPT), raised);
    (void)validate(in.q, in.k, in.v, {.scale = 0.1});
    EXPECT_FALSE(explain(in.q, in.k, in.v, causal{}).empty());
    EXPECT_EQ(fetestexcept(FE_ALL_EXCEPT), raised);
  }
}

#if defined(__x86_64__)
/// A caller who flushes subnormals, too, and masks all traps, has the kernels' own environment; not their flags.
TEST(Environment, StickyFlagsStayInTheEnvironmentOfTheKernels) {
  inputs<float> in;
  in.v.data()[5] = std::nanf("");
  in.k.data()[0] = 3e38f;
  const restored_environment restore;
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const unsigned flags : {0x00u, 0x20u, 0x04u}) {
    __builtin_ia32_ldmxcsr(0x9fc0u | flags);
    (void)attend(in.q, in.k, in.v, causal{}, {.threads = 2});
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    EXPECT_EQ(after, 0x9fc0u | flags);
  }
}
#endif

#if defined(__GLIBC__)
TEST(Environment, TrapsOfTheCallerDoNotFire) {
  const restored_environment restore;
  feclearexcept(FE_ALL_EXCEPT);
  if (feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW) == -1) GTEST_SKIP() << "no traps on this processor";
  if (fegetexcept() == 0) GTEST_SKIP() << "no traps on this processor";
  tensor<float, 4> q({1, 1, 2, 4}), k({1, 1, 3, 4}), v({1, 1, 3, 4}), out({1, 1, 2, 4});
  for (index_t i = 0; i < 12; ++i) k.data()[i] = 3e38f;
  for (index_t i = 0; i < 4; ++i) q.data()[i] = 3e38f;
  attention(q, k, v, out, {.threads = 2});
  attention(q, k, v, out, {.anchor = at_offset(-5), .threads = 2});
  EXPECT_EQ(fegetexcept(), FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
  fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_TRUE(std::isnan(out(0, 0, 0, 0)));
}
#endif

#if defined(__x86_64__)
TEST(Environment, FlushingOfTheCallerChangesNothingAndStays) {
  const inputs<float> in;
  auto tiny = in;
  for (index_t i = 0; i < tiny.v.size(); ++i) tiny.v.data()[i] *= 1e-38f;
  const auto first = attend(tiny.q, tiny.k, tiny.v, causal{});
  const unsigned before = __builtin_ia32_stmxcsr();
  for (unsigned bits : {0x8000u, 0x0040u, 0x8040u, 0u}) {
    __builtin_ia32_ldmxcsr((before & ~0x8040u) | bits);
    const auto found = attend(tiny.q, tiny.k, tiny.v, causal{}, {.threads = 2});
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    EXPECT_EQ(after & 0x8040u, bits);
    EXPECT_TRUE(same_bits(first.out, found.out));
  }
}
#endif

TEST(Environment, SubnormalInputsCountAsZero) {
  const auto check = []<class T>(T, double tiny) {
    for (int which = 0; which < 3; ++which) {
      inputs<T> with, without;
      for (index_t i = 0; i < 2000; i += 3) {
        T* const a = which == 0 ? with.q.data() : which == 1 ? with.k.data() : with.v.data();
        T* const b = which == 0 ? without.q.data() : which == 1 ? without.k.data() : without.v.data();
        a[i] = static_cast<T>(tiny), b[i] = static_cast<T>(0);
      }
      // With such a scale a subnormal would count, were it a number.
      const attention_options options{.scale = which == 2 ? 0.1 : 1e30};
      const auto one = attend(with.q, with.k, with.v, no_mask{}, options),
                 other = attend(without.q, without.k, without.v, no_mask{}, options);
      EXPECT_TRUE(same_bits(one.out, other.out)) << which;
      EXPECT_TRUE(same_bits(one.lse, other.lse)) << which;
    }
  };
  check(float{}, 1e-39);
  check(bfloat16{}, 1e-39);
  check(double{}, 1e-310);
  // A subnormal half is an ordinary float, and counts.
  const auto found = means<half>(1, 1, values_of<half>({0x1p-20, 0x3p-20}));
  EXPECT_EQ(static_cast<double>(found.out(0, 0, 0, 0)), 0x1p-19);
}

TEST(Environment, ErrnoStays) {
  const inputs<float> in;
  errno = 1234;
  (void)attend(in.q, in.k, in.v, causal{}, {.threads = 2});
  EXPECT_EQ(errno, 1234);
}

}  // namespace
