// function_ref: which functor is called, with what, and what comes back.
#include "heed/base/function_ref.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using heed::detail::function_ref;

int twice(function_ref<int(int)> function, int given) { return function(function(given)); }

TEST(FunctionRef, CallsTheFunctorThatItRefersTo) {
  int offset = 3;
  const auto add = [&](int given) { return given + offset; };
  const auto square = [](int given) { return given * given; };
  EXPECT_EQ(twice(add, 1), 7);
  EXPECT_EQ(twice(square, 3), 81);
  offset = 10;
  EXPECT_EQ(twice(add, 1), 21);
}

TEST(FunctionRef, PassesReferencesThrough) {
  int seen = 0;
  const auto count = [](int& counter, int const& by) { counter += by; };
  const function_ref<void(int&, int const&)> call = count;
  const function_ref<void(int&, int const&)> copy = call;
  call(seen, 2);
  copy(seen, 5);
  EXPECT_EQ(seen, 7);
}

#if HEED_EXCEPTIONS
TEST(FunctionRef, LetsExceptionsPass) {
  const auto fails = [](int) -> int { throw std::runtime_error("no"); };
  EXPECT_THROW((void)twice(fails, 1), std::runtime_error);
}
#endif

}  // namespace
