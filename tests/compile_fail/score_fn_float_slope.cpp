// A functor of float cannot be differentiated by the library: it takes no dual.
#include <heed/heed.hpp>

float test(float score, heed::position const& at) {
#ifdef HEED_MISUSE
  return heed::score_fn([](float s, heed::position) { return s * s; }).slope(score, at);
#else
  return heed::score_fn([](float s, heed::position) { return s * s; }, [](float s, heed::position) { return 2 * s; })
      .slope(score, at);
#endif
}
