// Stores past the caches, where the processor has them; elsewhere plain stores.
#pragma once

#include "kernels/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti::TUTTI_ISA {

/// Bytes of a vector of the instruction set this file is compiled for.
#if defined(__AVX512BW__)
inline constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t kVectorBytes = 32;
#else
inline constexpr std::size_t kVectorBytes = 16;
#endif

/// Stores a vector, at an address aligned to its size, without bringing the line into the caches. Weakly ordered:
/// stream_fence() comes before the release that hands the bytes to another thread.
template <class V>
TUTTI_INLINE void stream_to(void* address, V value) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return _mm512_stream_si512(static_cast<__m512i*>(address), __builtin_bit_cast(__m512i, value));
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32)
    return _mm256_stream_si256(static_cast<__m256i*>(address), __builtin_bit_cast(__m256i, value));
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 16)
    return _mm_stream_si128(static_cast<__m128i*>(address), __builtin_bit_cast(__m128i, value));
  if constexpr (sizeof(V) == 8)
    return _mm_stream_si64(static_cast<long long*>(address), __builtin_bit_cast(long long, value));
#endif
  store_to(address, value);
}

TUTTI_INLINE void stream_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace tutti::TUTTI_ISA
