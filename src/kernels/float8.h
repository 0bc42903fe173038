// The two 8-bit floats of the Open Compute Project ("OCP 8-bit Floating Point Specification", 2023) to float and back,
// to nearest even, not saturating, any NaN to one quiet NaN. For one value or a vector.
#pragma once

#include "kernels/float16.h"

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
      const __m256i halves = _mm256_packus_epi32(resize<__m256i>(words), resize<__m256i>(words));
      const __m256i bytes = _mm256_packus_epi16(halves, halves);  // four of the lower lanes, four of the upper
      return resize<Bytes>(_mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
    }
#endif
    return convert<std::uint8_t>(words);
  }
};

/// Rounds floats to a format of `kMantissaBits` and the exponent bias `kBias`: the magnitude's bits, not bounded above.
template <std::uint32_t kMantissaBits, std::uint32_t kBias>
struct ByteRounding {
  /// The smallest normal value of the format.
  static constexpr std::uint32_t kSmallest = (128 - kBias) << 23;

  template <class Words>
  TUTTI_INLINE static Words round(Words magnitude) {
    constexpr std::uint32_t kShift = 23 - kMantissaBits;
    constexpr std::uint32_t kRebias = (127 - kBias) << 23;
    // A float whose last place is the format's smallest subnormal: the addition rounds to multiples of it.
    constexpr std::uint32_t kAligner = (128 - kBias + kShift) << 23;
    const Words aligner = Words{} + kAligner;
    const Words normal = (magnitude + ((1u << (kShift - 1)) - 1 - kRebias) + ((magnitude >> kShift) & 1u)) >> kShift;
    const Words subnormal = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(aligner)) - aligner;
    return below(magnitude, kSmallest) ? subnormal : normal;
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

  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
#if defined(__F16C__)
    if constexpr (Shape<V>::kLanes > 1) return widen_by_half(stored);
#endif
    using Words = With<std::uint32_t, V>;
    const Words zero = {};
    const Words word = convert<std::uint32_t>(stored);
    const Words magnitude = word & 0x7fu;
    const Words normal = (magnitude << 20) + (120u << 23);
    // 2^-6 * (1 + m) - 2^-6 is exact: the subnormal 2^-6 * m.
    const Words above = normal + (1u << 23);
    const Words base = zero + (121u << 23);
    const Words subnormal = bits_as<std::uint32_t>(bits_as<float>(above) - bits_as<float>(base));
    const Words finite = Rounding::below(magnitude, 8) ? subnormal : normal;
    const Words nan = zero + 0x7fc00000u;
    return bits_as<float>((magnitude == zero + kNan ? nan : finite) | ((word & 0x80u) << 24));
  }

  template <class V>
  TUTTI_INLINE static With<std::uint8_t, V> narrow(V value) {
    using Words = With<std::uint32_t, V>;
    const Words bits = bits_as<std::uint32_t>(value);
    const Words rounded = Rounding::round(bits & 0x7fffffffu);
    const Words nan = Words{} + kNan;
    return ByteLanes::lowest_of(Rounding::below(rounded, kNan) ? (rounded | ((bits >> 24) & 0x80u)) : nan);
  }

 private:
  using Rounding = ByteRounding<3, 7>;
  static constexpr std::uint32_t kNan = 0x7f;

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

  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
    return HalfCodec::widen(static_cast<With<std::uint16_t, V>>(ByteLanes::halves_of(stored) << 8));
  }

  template <class V>
  TUTTI_INLINE static With<std::uint8_t, V> narrow(V value) {
    using Words = With<std::uint32_t, V>;
    const Words bits = bits_as<std::uint32_t>(value);
    const Words rounded = Rounding::round(bits & 0x7fffffffu);
    const Words infinity = Words{} + 0x7cu;
    const Words nan = Words{} + 0x7eu;
    const Words bounded = Rounding::below(rounded, 0x7c) ? rounded : infinity;
    return ByteLanes::lowest_of(value == value ? (bounded | ((bits >> 24) & 0x80u)) : nan);
  }

 private:
  using Rounding = ByteRounding<2, 15>;
};

}  // namespace tutti::TUTTI_ISA
