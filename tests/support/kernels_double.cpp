// The kernels of calls whose accumulate type is double: kernels.hpp.
#include "support/kernels.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
HEED_TEST_KERNELS_OF_DOUBLE()
}  // namespace HEED_ABI
}  // namespace heed::detail
