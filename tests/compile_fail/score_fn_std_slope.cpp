// Functions of the standard library know of no dual; they do in a functor that is only evaluated.
#include <cmath>
#include <heed/heed.hpp>

float test(float score, heed::position const& at) {
  const heed::score_fn evaluated([](auto s, heed::position) { return std::tanh(s); });
#ifdef HEED_MISUSE
  return evaluated.slope(score, at);
#else
  const heed::score_fn differentiated([](auto s, heed::position) { return heed::tanh(s); });
  return differentiated.slope(evaluated.adjusted(score, at), at);
#endif
}
