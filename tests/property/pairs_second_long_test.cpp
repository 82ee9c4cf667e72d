// A second third of the pairs of rules.
#include "support/pairs.hpp"

namespace {

TEST(Pairs, SecondThird) { heed::test::check_third_of_pairs<1>(); }

}  // namespace
