// The two 8-bit floats of the Open Compute Project ("OCP 8-bit Floating Point Specification", 2023) to float and back,
// to nearest even, not saturating, any NaN to one quiet NaN. For one value or a vector.
#pragma once

#include "kernels/float16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti::TUTTI_ISA {

/// Between lanes of one byte and wider ones: what convert() does, in the instructions for it where g++ 12 does not find
/// them.
struct ByteLanes {
  template <class V>
  TUTTI_INLINE static With<std::uint16_t, V> halves_of(V bytes) {
    using Halves [[maybe_unused]] = With<std::uint16_t, V>;
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 16) return resize<Halves>(_mm256_cvtepu8_epi16(resize<__m128i>(bytes)));
    if constexpr (sizeof(V) == 8) return resize<Halves>(_mm_cvtepu8_epi16(resize<__m128i>(bytes)));
#endif
    return convert<std::uint16_t>(bytes);
  }

  template <class V>
  TUTTI_INLINE static With<std::uint8_t, V> lowest_of(V words) {
    using Bytes [[maybe_unused]] = With<std::uint8_t, V>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return resize<Bytes>(_mm512_maskz_cvtepi32_epi8(0xffff, resize<__m512i>(words)));
    if constexpr (sizeof(V) == 32) return resize<Bytes>(_mm256_maskz_cvtepi32_epi8(0xff, resize<__m256i>(words)));
#elif defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      const __m256i order = _mm256_set1_epi32(0x0c080400);  // of every four words the lowest bytes
      const __m256i bytes = _mm256_shuffle_epi8(resize<__m256i>(words), order);
      return resize<Bytes>(_mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
    }
#elif defined(__SSE2__) && !defined(__CUDACC__)  // nvcc knows no vectors in functions for both
    if constexpr (sizeof(V) == 16) {
      const __m128i bytes = resize<__m128i>(words & 0xffu);
      const __m128i halves = _mm_packs_epi32(bytes, bytes);
      return resize<Bytes>(_mm_packus_epi16(halves, halves));
    }
#endif
    return convert<std::uint8_t>(words);
  }
};

template <class Codec>
struct ByteTable;

/// The floats of all values of a format. Where the processor converts nothing, looking them up is three times as fast
/// as computing them.
template <class Codec>
inline constexpr ByteTable<Codec> kByteTable{};

template <class Codec>
struct ByteTable {
  float values[256];

  constexpr ByteTable() : values() {
    for (int bits = 0; bits < 256; ++bits) values[bits] = Codec::value_of(static_cast<std::uint8_t>(bits));
  }
  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
    if constexpr (std::is_arithmetic_v<V>) {
      return Codec::value_of(stored);
    } else {
      With<float, V> result = {};
      for (int i = 0; i < Shape<V>::kLanes; ++i) result[i] = kByteTable<Codec>.values[stored[i]];
      return result;
    }
  }
};

/// Rounds floats to a format with `kMantissaBits` digits after the point and the exponent bias `kBias`.
template <int kMantissaBits, int kBias>
struct ByteRounding {
  /// The format's bits of a magnitude below 2^100, given as a float's bits: in the lowest byte of each word, anything
  /// in the others. An addition rounds: to `magnitude` is added a power of two so large that the sum's last place is
  /// the last place of the result, also where that is subnormal; the digits are then the sum's lowest bits.
  template <class Words>
  TUTTI_INLINE static Words round(Words magnitude) {
    constexpr int kShift = 23 - kMantissaBits;
    constexpr std::uint32_t kSmallest = (128u - kBias) << 23;  // the smallest normal value of the format
    // In the power's lowest bits goes what is left over when its exponent becomes the format's: less bias, less one.
    constexpr std::uint32_t kOffset = (0u - ((128u - kBias) << kMantissaBits)) & 0xffu;
    constexpr std::uint32_t kToPower = (static_cast<std::uint32_t>(kShift) << 23) + kOffset;
    const Words smallest = Words{} + kSmallest;
    const Words exponent = (below(magnitude, kSmallest) ? smallest : magnitude) & 0x7f800000u;
    const Words power = exponent + kToPower;
    const Words sum = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(power));
    return sum + (exponent >> kShift);
  }

  /// Both less than 2^31: SSE2 compares signed integers only.
  template <class Words>
  TUTTI_INLINE static auto below(Words a, std::uint32_t b) {
    return bits_as<std::int32_t>(a) < static_cast<std::int32_t>(b);
  }
};

/// float8 e4m3 ("FN"): bias 7, no infinity, NaN is all ones; finite up to 448. What rounds to more, and infinity, is
/// NaN.
struct Float8e4m3Codec {
  using Storage = std::uint8_t;

  TUTTI_HD static constexpr float value_of(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7fu;
    const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
    const float normal = __builtin_bit_cast(float, (magnitude << 20) + (120u << 23));
    const float finite = magnitude < 8 ? subnormal : normal;
    const float value = magnitude == kNan ? __builtin_nanf("") : finite;
    return bits > 0x7f ? -value : value;
  }

  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
#if defined(__F16C__)
    if constexpr (Shape<V>::kLanes > 1) return widen_by_half(stored);
#endif
    return ByteTable<Float8e4m3Codec>::widen(stored);
  }

  template <class V>
  TUTTI_INLINE static With<std::uint8_t, V> narrow(V value) {
    using Words = With<std::uint32_t, V>;
    const Words bits = bits_as<std::uint32_t>(value);
    const Words magnitude = bits & 0x7fffffffu;
    const Words nan = Words{} + kNan;
    const Words result = Rounding::round(magnitude) | ((bits >> 24) & 0x80u);
    return ByteLanes::lowest_of(Rounding::below(magnitude, kOverflow) ? result : nan);
  }

 private:
  using Rounding = ByteRounding<3, 7>;
  static constexpr std::uint32_t kNan = 0x7f;
  static constexpr std::uint32_t kOverflow = 0x43e80001u;  // the float after 464, which is as near to 448 as to 480

#if defined(__F16C__)
  // Moved into binary16's fields the value is 2^-8 of itself, also where it is subnormal; the multiplication is exact.
  template <class V>
  TUTTI_INLINE static With<float, V> widen_by_half(V stored) {
    using Halves = With<std::uint16_t, V>;
    const Halves half = ByteLanes::halves_of(stored);
    const Halves magnitude = half & 0x7f;
    const Halves sign = half & 0x80;
    const Halves nan = Halves{} + 0x7e00;
    const Halves moved = magnitude == 0x7f ? nan : magnitude << 7;
    return HalfCodec::widen(moved | (sign << 8)) * 256.0f;
  }
#endif
};

/// float8 e5m2: the upper byte of a binary16, with its infinities and NaNs. What rounds to more than 57344 is infinite.
struct Float8e5m2Codec {
  using Storage = std::uint8_t;

  TUTTI_HD static constexpr float value_of(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7fu;
    const float subnormal = static_cast<float>(magnitude) * 0x1p-16f;
    const float normal = __builtin_bit_cast(float, (magnitude << 21) + (112u << 23));
    const float finite = magnitude < 4 ? subnormal : normal;
    const float special = magnitude == 0x7c ? __builtin_inff() : __builtin_nanf("");
    const float value = magnitude < 0x7c ? finite : special;
    return bits > 0x7f ? -value : value;
  }

  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
#if defined(__F16C__)
    if constexpr (Shape<V>::kLanes > 1) {
      return HalfCodec::widen(static_cast<With<std::uint16_t, V>>(ByteLanes::halves_of(stored) << 8));
    }
#endif
    return ByteTable<Float8e5m2Codec>::widen(stored);
  }

  template <class V>
  TUTTI_INLINE static With<std::uint8_t, V> narrow(V value) {
    using Words = With<std::uint32_t, V>;
    const Words bits = bits_as<std::uint32_t>(value);
    const Words magnitude = bits & 0x7fffffffu;
    const Words limit = Words{} + kLimit;
    const Words nan = Words{} + 0x7eu;
    const Words bounded = Rounding::below(magnitude, kLimit) ? magnitude : limit;
    const Words result = Rounding::round(bounded) | ((bits >> 24) & 0x80u);
    return ByteLanes::lowest_of(value == value ? result : nan);
  }

 private:
  using Rounding = ByteRounding<2, 15>;
  static constexpr std::uint32_t kLimit = 143u << 23;  // 2^16, whose bits in this format would be infinity's
};

}  // namespace tutti::TUTTI_ISA
