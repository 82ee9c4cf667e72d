// The last third of the pairs of rules.
#include "support/pairs.hpp"

namespace {

TEST(Pairs, LastThird) { heed::test::check_third_of_pairs<2>(); }

}  // namespace
