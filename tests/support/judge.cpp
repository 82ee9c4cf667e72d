// The loops of the judge, and behind them those of the reference.
#include "support/judge.hpp"

namespace heed::test {

template class verdict<float>;
template class verdict<double>;

}  // namespace heed::test
