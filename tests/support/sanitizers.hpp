// How this build runs: which sanitizer watches it, and whether it is optimised.
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEED_TEST_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define HEED_TEST_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HEED_TEST_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HEED_TEST_ASAN 1
#endif
#if !defined(HEED_TEST_TSAN)
#define HEED_TEST_TSAN 0
#endif
#if !defined(HEED_TEST_ASAN)
#define HEED_TEST_ASAN 0
#endif
#if defined(__OPTIMIZE__)
#define HEED_TEST_UNOPTIMISED 0
#else
#define HEED_TEST_UNOPTIMISED 1
#endif
