// What calls of one accumulate type share whatever their rule: the loops above the verbs and the doors to them. The
// programs of the tests find it in their kernels_*.cpp, so that no file of tests compiles it again;
// tests/CMakeLists.txt puts this header before each of them. A rule, the front door and the checks are still compiled
// where they are used.
#pragma once

#include "heed/heed.hpp"

/// Nothing before `template` makes them, `extern` says that another file does.
#define HEED_TEST_KERNELS(EXTERN, REAL)                                                                             \
  EXTERN template verbs<REAL> const& verbs_of<REAL, false>(bool) noexcept;                                          \
  EXTERN template verbs<REAL> const& verbs_for_rows<REAL>(verbs<REAL> const&, index_t, bool) noexcept;              \
  EXTERN template gradient_verbs<REAL> const& gradient_verbs_of<REAL, false>(bool) noexcept;                        \
  EXTERN template void forward<REAL>(problem const&, rule_view const&, rule_verbs<REAL> const&, verbs<REAL> const&, \
                                     row_verbs<REAL> const*);                                                       \
  EXTERN template void backward<REAL>(gradient_call<REAL>&);                                                        \
  EXTERN template std::string explain<REAL>(problem const&, rule_view const&, std::vector<rule_note>&,              \
                                            verbs<REAL> const&, row_verbs<REAL> const*);                            \
  EXTERN template std::string explain_backward<REAL>(gradient_call<REAL>&, std::vector<rule_note>&);                \
  EXTERN template class merger<REAL>;

/// The verbs of few query rows, for keys and values of these types.
#define HEED_TEST_ROW_KERNELS(EXTERN, REAL, KEY, VALUE) \
  EXTERN template row_verbs<REAL> const* row_verbs_of<REAL, element_kind::KEY, element_kind::VALUE>(isa_level) noexcept;

/// Those of the types that most tests call with.
#define HEED_TEST_KERNELS_OF_FLOAT(EXTERN) \
  HEED_TEST_KERNELS(EXTERN, float)         \
  HEED_TEST_ROW_KERNELS(EXTERN, float, float32, float32)
#define HEED_TEST_KERNELS_OF_NARROW(EXTERN)                                                   \
  EXTERN template verbs<float> const& verbs_of<float, true>(bool) noexcept;                   \
  EXTERN template gradient_verbs<float> const& gradient_verbs_of<float, true>(bool) noexcept; \
  HEED_TEST_ROW_KERNELS(EXTERN, float, float16, float16)                                      \
  HEED_TEST_ROW_KERNELS(EXTERN, float, bfloat16, bfloat16)                                    \
  HEED_TEST_ROW_KERNELS(EXTERN, float, bfloat16, float32)                                     \
  HEED_TEST_ROW_KERNELS(EXTERN, float, bfloat16, float16)                                     \
  HEED_TEST_ROW_KERNELS(EXTERN, float, float32, float16)                                      \
  HEED_TEST_ROW_KERNELS(EXTERN, float, float64, float64)
#define HEED_TEST_KERNELS_OF_DOUBLE(EXTERN)                \
  HEED_TEST_KERNELS(EXTERN, double)                        \
  HEED_TEST_ROW_KERNELS(EXTERN, double, float64, float64)  \
  HEED_TEST_ROW_KERNELS(EXTERN, double, float16, bfloat16) \
  HEED_TEST_ROW_KERNELS(EXTERN, double, float32, float16)  \
  HEED_TEST_ROW_KERNELS(EXTERN, double, float64, bfloat16)

namespace heed::detail {
inline namespace HEED_ABI {
HEED_TEST_KERNELS_OF_FLOAT(extern)
HEED_TEST_KERNELS_OF_NARROW(extern)
HEED_TEST_KERNELS_OF_DOUBLE(extern)
}  // namespace HEED_ABI
}  // namespace heed::detail
