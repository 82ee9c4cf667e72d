// The adaptor for OpenMP says which flag it wants.
#if defined(HEED_MISUSE) || defined(_OPENMP)
#include <heed/interop/openmp.hpp>
#endif
