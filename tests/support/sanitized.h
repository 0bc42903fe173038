// Whether this build runs under a sanitizer, which slows programs down and brings threads, memory and descriptors of
// its own.
#pragma once

#if defined(__has_feature)  // clang; g++ defines __SANITIZE_*
#define TUTTI_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TUTTI_HAS_FEATURE(feature) 0
#endif

namespace tutti::test {

#if defined(__SANITIZE_THREAD__) || TUTTI_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || TUTTI_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

}  // namespace tutti::test

#undef TUTTI_HAS_FEATURE
