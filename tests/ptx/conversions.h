// Conversions between numbers as PTX's instructions do them: rounded to nearest, ties to even. Written from the
// formats' definitions alone, so that they can tell whether the library's own conversions, and what it does around the
// instructions, are right.
#pragma once

#include <cstdint>

namespace tutti::ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using f32 = float;
using f64 = double;

/// To an integer, towards zero. What does not fit becomes the nearest value that does, what is no number becomes 0.
template <class To, class From>
To truncate(From value) {
  constexpr auto kLowest =
      static_cast<f64>(static_cast<To>(static_cast<To>(-1) < 0 ? To{1} << (8 * sizeof(To) - 1) : 0));
  constexpr f64 kBeyond = static_cast<f64>(u64{1} << (8 * sizeof(To) - 1)) * (static_cast<To>(-1) < 0 ? 1 : 2);
  const f64 wide = value;
  if (wide != wide) return 0;
  if (wide < kLowest) return static_cast<To>(kLowest);
  if (wide >= kBeyond) return static_cast<To>(~(static_cast<To>(-1) < 0 ? To{1} << (8 * sizeof(To) - 1) : To{0}));
  return static_cast<To>(wide);
}

// A pair's first operand becomes the upper half of the result.
u32 narrow_f16x2(f32 high, f32 low);
u32 narrow_bf16x2(f32 high, f32 low);
/// These take what is too large to the largest finite number.
u16 narrow_e4m3x2(f32 high, f32 low);
u16 narrow_e5m2x2(f32 high, f32 low);
f32 widen_f16(u16 value);
/// Two values of binary16.
u32 widen_e4m3x2(u16 pair);

}  // namespace tutti::ptx
