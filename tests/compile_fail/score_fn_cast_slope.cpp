// A plain number made of a score has lost its slope.
#include <heed/heed.hpp>

float test(float score, heed::position const& at) {
#ifdef HEED_MISUSE
  return heed::score_fn([](auto s, heed::position) { return static_cast<float>(s) * 2; }).slope(score, at);
#else
  return heed::score_fn([](auto s, heed::position) { return static_cast<decltype(s)>(0.5) * s; }).slope(score, at);
#endif
}
