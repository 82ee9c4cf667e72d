// What calls of half and bfloat16 have beside the kernels of float: kernels.hpp.
#include "support/kernels.hpp"

namespace heed::detail {
inline namespace HEED_ABI {
HEED_TEST_KERNELS_OF_NARROW()
}  // namespace HEED_ABI
}  // namespace heed::detail
