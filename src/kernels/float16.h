// float16 and bfloat16 to float and back, to nearest even, any NaN to one quiet NaN. For one value or a vector.
#pragma once

#include "kernels/lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tutti::TUTTI_ISA {

/// bfloat16: the upper half of a float.
struct BrainCodec {
  using Storage = std::uint16_t;

  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
    return bits_as<float>(words_of(stored) << 16);
  }
  template <class V>
  TUTTI_INLINE static With<std::uint16_t, V> narrow(V value) {
    using Words = With<std::uint32_t, V>;
    const Words bits = bits_as<std::uint32_t>(value);
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Words nan = Words{} + 0x7fc0u;
    return lower_halves(value == value ? rounded : nan);
  }

 private:
  // What convert() does, in the one instruction for it where g++ 12 does not find it.
  template <class V>
  TUTTI_INLINE static With<std::uint32_t, V> words_of(V halves) {
    using Words [[maybe_unused]] = With<std::uint32_t, V>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 32) return resize<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, resize<__m256i>(halves)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 16) return resize<Words>(_mm256_cvtepu16_epi32(resize<__m128i>(halves)));
#endif
    return convert<std::uint32_t>(halves);
  }
  template <class V>
  TUTTI_INLINE static With<std::uint16_t, V> lower_halves(V words) {
    using Halves [[maybe_unused]] = With<std::uint16_t, V>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return resize<Halves>(_mm512_maskz_cvtepi32_epi16(0xffff, resize<__m512i>(words)));
    if constexpr (sizeof(V) == 32) return resize<Halves>(_mm256_maskz_cvtepi32_epi16(0xff, resize<__m256i>(words)));
#elif defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      const __m256i packed = _mm256_packus_epi32(resize<__m256i>(words), resize<__m256i>(words));
      return resize<Halves>(_mm256_permute4x64_epi64(packed, 8));
    }
#endif
    return convert<std::uint16_t>(words);
  }
};

/// IEEE binary16 by integer arithmetic and one exact float operation for the subnormals. The processor's instructions
/// are used where there are any; both give the same bits.
struct HalfCodec {
  using Storage = std::uint16_t;

  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
#if defined(__F16C__)
    if constexpr (Shape<V>::kLanes > 1) return widen_by_processor(stored);
#endif
    using Words = With<std::uint32_t, V>;
    const Words word = convert<std::uint32_t>(stored);
    const Words zero = {};
    const Words shifted = (word & 0x7fffu) << 13;
    const Words exponent = shifted & kExponent;
    const Words normal = shifted + kRebias;
    const Words special = normal + kRebias;
    // 2^-14 * (1 + m) - 2^-14 is exact: the subnormal 2^-14 * m.
    const Words above = normal + (1u << 23);
    const Words base = zero + kSmallest;
    const Words subnormal = bits_as<std::uint32_t>(bits_as<float>(above) - bits_as<float>(base));
    const Words finite = exponent == zero ? subnormal : normal;
    const Words magnitude = exponent == (zero + kExponent) ? special : finite;
    return bits_as<float>(magnitude | ((word & 0x8000u) << 16));
  }

  template <class V>
  TUTTI_INLINE static With<std::uint16_t, V> narrow(V value) {
#if defined(__F16C__)
    if constexpr (Shape<V>::kLanes > 1) return narrow_by_processor(value);
#endif
    using Words = With<std::uint32_t, V>;
    const Words bits = bits_as<std::uint32_t>(value);
    const Words zero = {};
    const Words magnitude = bits & 0x7fffffffu;
    const Words normal = (magnitude - kRebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Adding 0.5 leaves just the subnormal's digits in the float, rounded by the addition.
    const Words half = zero + 0x3f000000u;
    const Words subnormal = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(half)) - half;
    const Words finite = magnitude < (zero + kSmallest) ? subnormal : normal;
    const Words bounded = magnitude < (zero + kOverflow) ? finite : zero + 0x7c00u;
    const Words nan = zero + 0x7e00u;
    return convert<std::uint16_t>(value == value ? (bounded | ((bits >> 16) & 0x8000u)) : nan);
  }

 private:
  static constexpr std::uint32_t kRebias = 112u << 23;           // bias 127 of float less bias 15 of binary16
  static constexpr std::uint32_t kExponent = 0x7c00u << 13;      // binary16's exponent where it lands in a float
  static constexpr std::uint32_t kSmallest = 113u << 23;         // 2^-14, the smallest normal binary16
  static constexpr std::uint32_t kOverflow = (127u + 16) << 23;  // 2^16, beyond binary16

#if defined(__F16C__)
  // The masked forms, with all lanes on: g++ 12 warns of an uninitialised value inside the plain ones (PR 105593).
  [[maybe_unused]] static constexpr unsigned short kAll = 0xffff;

  template <class V>
  TUTTI_INLINE static With<float, V> widen_by_processor(V stored) {
#if defined(__AVX512F__)
    if constexpr (Shape<V>::kLanes == 16)
      return resize<With<float, V>>(_mm512_maskz_cvtph_ps(kAll, resize<__m256i>(stored)));
#endif
    if constexpr (Shape<V>::kLanes == 8) return resize<With<float, V>>(_mm256_cvtph_ps(resize<__m128i>(stored)));
    return resize<With<float, V>>(_mm_cvtph_ps(resize<__m128i>(stored)));
  }

  template <class V>
  TUTTI_INLINE static With<std::uint16_t, V> narrow_by_processor(V value) {
    using Stored = With<std::uint16_t, V>;
    const V nan = V{} + __builtin_nanf("");
    const V clean = value == value ? value : nan;
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(__AVX512F__)
    if constexpr (Shape<V>::kLanes == 16)
      return resize<Stored>(_mm512_maskz_cvtps_ph(kAll, resize<__m512>(clean), kNearest));
#endif
    if constexpr (Shape<V>::kLanes == 8) return resize<Stored>(_mm256_cvtps_ph(resize<__m256>(clean), kNearest));
    return resize<Stored>(_mm_cvtps_ph(resize<__m128>(clean), kNearest));
  }
#endif
};

}  // namespace tutti::TUTTI_ISA
