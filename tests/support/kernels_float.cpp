// The kernels of calls whose accumulate type is float: kernels.hpp.
#include "support/kernels.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
HEED_TEST_KERNELS_OF_FLOAT()
}  // namespace HEED_ABI
}  // namespace heed::detail
