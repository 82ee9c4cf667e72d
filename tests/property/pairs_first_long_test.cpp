// A third of the pairs of rules; the long matrix has the others.
#include "support/pairs.hpp"

namespace {

TEST(Pairs, FirstThird) { heed::test::check_third_of_pairs<0>(); }

}  // namespace
