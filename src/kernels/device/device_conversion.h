// 8 and 16-bit floats to float and back, a word of them at a time. On the host and where a device has no instruction
// for it: value by value, as float16.h and float8.h say. The device's instructions give the same bits; what they do
// differently (which NaN, what overflows) is mended beside them.
#pragma once

#include "kernels/device/device_pack.h"
#include "kernels/float16.h"
#include "kernels/float8.h"

namespace tutti::device {

/// `Codec` of float16.h or float8.h: the values of a word, its lowest bits first.
template <class Codec>
struct ValueConversion {
  using Storage = typename Codec::Storage;
  static constexpr int kCount = 4 / sizeof(Storage);
  static constexpr int kBits = 8 * sizeof(Storage);

  TUTTI_HD static void widen(std::uint32_t word, float* lanes) {
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes[i] = Codec::widen(static_cast<Storage>(word >> (i * kBits)));
  }
  TUTTI_HD static std::uint32_t narrow(const float* lanes) {
    std::uint32_t word = 0;
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) word |= std::uint32_t{Codec::narrow(lanes[i])} << (i * kBits);
    return word;
  }
};

template <class Codec>
struct Conversion : ValueConversion<Codec> {};

#if defined(__CUDA_ARCH__)

/// Two values of 16 bits: those of `packed`, with `nan` in place of what is a NaN in `lanes`.
__device__ inline std::uint32_t with_nan(std::uint32_t packed, const float* lanes, std::uint32_t nan) {
  const std::uint32_t low = lanes[0] == lanes[0] ? packed : nan;
  const std::uint32_t high = lanes[1] == lanes[1] ? packed : nan << 16;
  return __byte_perm(low, high, 0x7610);
}

template <>
struct Conversion<portable::HalfCodec> {
  __device__ static void widen(std::uint32_t word, float* lanes) {
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
        : "=f"(lanes[0]), "=f"(lanes[1])
        : "r"(word));
  }
  __device__ static std::uint32_t narrow(const float* lanes) {
    std::uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(lanes[1]), "f"(lanes[0]));
    return with_nan(packed, lanes, 0x7e00);
  }
};

template <>
struct Conversion<portable::BrainCodec> {
  __device__ static void widen(std::uint32_t word, float* lanes) {
    lanes[0] = __uint_as_float(word << 16);
    lanes[1] = __uint_as_float(word & 0xffff0000u);
  }
  __device__ static std::uint32_t narrow(const float* lanes) {
    std::uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(lanes[1]), "f"(lanes[0]));
    return with_nan(packed, lanes, 0x7fc0);
  }
};

#if __CUDA_ARCH__ >= 890

template <>
struct Conversion<portable::Float8e4m3Codec> {
  /// Exact; a NaN stays one.
  __device__ static void widen(std::uint32_t word, float* lanes) {
    std::uint32_t pairs[2];
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
        : "=r"(pairs[0]), "=r"(pairs[1])
        : "r"(word));
    Conversion<portable::HalfCodec>::widen(pairs[0], lanes);
    Conversion<portable::HalfCodec>::widen(pairs[1], lanes + 2);
  }
  /// The instruction saturates, at 448; what rounds to more, from 464 on, has to be a NaN, which it keeps.
  __device__ static std::uint32_t narrow(const float* lanes) {
    float clean[4];
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) clean[i] = fabsf(lanes[i]) <= 464 ? lanes[i] : __uint_as_float(0x7fc00000u);
    std::uint32_t word;
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;"
        " mov.b32 %0, {low, high};}"
        : "=r"(word)
        : "f"(clean[0]), "f"(clean[1]), "f"(clean[2]), "f"(clean[3]));
    return word;
  }
};

#endif

/// The upper bytes of two binary16 numbers each.
template <>
struct Conversion<portable::Float8e5m2Codec> {
  __device__ static void widen(std::uint32_t word, float* lanes) {
    Conversion<portable::HalfCodec>::widen(__byte_perm(word, 0, 0x1404), lanes);
    Conversion<portable::HalfCodec>::widen(__byte_perm(word, 0, 0x3424), lanes + 2);
  }
#if __CUDA_ARCH__ >= 890
  /// The instruction makes one NaN of all, 0x7f, and saturates to 0x7b of either sign, one less than infinity, which it
  /// has to be from 61440 on.
  __device__ static std::uint32_t narrow(const float* lanes) {
    std::uint32_t word;
    asm("{.reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1; cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;"
        " mov.b32 %0, {low, high};}"
        : "=r"(word)
        : "f"(lanes[0]), "f"(lanes[1]), "f"(lanes[2]), "f"(lanes[3]));
    const std::uint32_t nan = ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
    word = (word & ~nan) - (nan >> 7);  // 0x7e, and no sign
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) word += fabsf(lanes[i]) >= 61440 ? 1u << (8 * i) : 0u;
    return word;
  }
#else
  __device__ static std::uint32_t narrow(const float* lanes) {
    return ValueConversion<portable::Float8e5m2Codec>::narrow(lanes);
  }
#endif
};

#endif

}  // namespace tutti::device
