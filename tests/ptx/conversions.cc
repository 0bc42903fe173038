#include "ptx/conversions.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tutti::ptx {
namespace {

/// A format of a sign, so many bits of exponent and so many of fraction.
struct Format {
  int exponent_bits;
  int fraction_bits;
  u32 nan;       ///< what the instruction makes of what is no number
  f64 largest;   ///< the largest finite number
  u32 overflow;  ///< the bits, without the sign, of what rounds to more than that

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr u32 sign() const { return u32{1} << (exponent_bits + fraction_bits); }
};
constexpr Format kHalf{5, 10, 0x7fff, 65504.0, 0x7c00};
constexpr Format kBrain{8, 7, 0x7fff, 0x1.fep127, 0x7f80};
constexpr Format kE4m3{4, 3, 0x7f, 448.0, 0x7e};
constexpr Format kE5m2{5, 2, 0x7f, 57344.0, 0x7b};

u32 narrow(const Format& format, f32 value) {
  if (value != value) return format.nan;
  const u32 sign = std::signbit(value) ? format.sign() : 0;
  const f64 size = std::fabs(static_cast<f64>(value));
  if (std::isinf(value)) return sign | format.overflow;
  if (size == 0) return sign;
  // The distance of neighbours where the value is: that of the subnormal numbers at least.
  const int exponent = std::max(std::ilogb(size), 1 - format.bias());
  const f64 units = std::nearbyint(std::ldexp(size, format.fraction_bits - exponent));
  if (std::ldexp(units, exponent - format.fraction_bits) > format.largest) return sign | format.overflow;
  // A fraction that has become one of a larger exponent carries into it.
  const u32 normal = u32{1} << format.fraction_bits;
  return sign |
         (static_cast<u32>(units) - normal + (static_cast<u32>(exponent + format.bias()) << format.fraction_bits));
}

f64 widen(const Format& format, u32 bits) {
  const u32 fraction = bits & ((u32{1} << format.fraction_bits) - 1);
  const u32 field = (bits & (format.sign() - 1)) >> format.fraction_bits;
  const int exponent = field == 0 ? 1 - format.bias() : static_cast<int>(field) - format.bias();
  const f64 units = static_cast<f64>(fraction) + (field == 0 ? 0 : static_cast<f64>(u32{1} << format.fraction_bits));
  const f64 size = std::ldexp(units, exponent - format.fraction_bits);
  return (bits & format.sign()) != 0 ? -size : size;
}

u32 half_of_e4m3(u32 bits) {
  if ((bits & 0x7f) == 0x7f) return kHalf.nan;
  return narrow(kHalf, static_cast<f32>(widen(kE4m3, bits)));
}

}  // namespace

u32 narrow_f16x2(f32 high, f32 low) { return narrow(kHalf, high) << 16 | narrow(kHalf, low); }
u32 narrow_bf16x2(f32 high, f32 low) { return narrow(kBrain, high) << 16 | narrow(kBrain, low); }
u16 narrow_e4m3x2(f32 high, f32 low) { return static_cast<u16>(narrow(kE4m3, high) << 8 | narrow(kE4m3, low)); }
u16 narrow_e5m2x2(f32 high, f32 low) { return static_cast<u16>(narrow(kE5m2, high) << 8 | narrow(kE5m2, low)); }

f32 widen_f16(u16 value) {
  if ((value & 0x7c00) != 0x7c00) return static_cast<f32>(widen(kHalf, value));
  const u32 sign = u32{value} >> 15 << 31;
  const u32 fraction = value & 0x3ffu;
  return std::bit_cast<f32>(fraction == 0 ? sign | 0x7f800000u : 0x7fffffffu);
}

u32 widen_e4m3x2(u16 pair) { return half_of_e4m3(pair >> 8) << 16 | half_of_e4m3(pair & 0xff); }

}  // namespace tutti::ptx
