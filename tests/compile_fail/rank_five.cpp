// Views have at most four axes.
#include <heed/heed.hpp>

#ifdef HEED_MISUSE
heed::tensor_view<float, 5> view;
#else
heed::tensor_view<float, 4> view;
#endif
