#include "number.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tutti::perf {
namespace {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  std::uint64_t bias() const { return (1ULL << (exponent_bits - 1)) - 1; }
};

FloatFormat format_of(tuttiDataType_t type) {
  switch (type) {
    case tuttiFloat16:
      return {5, 10};
    case tuttiBfloat16:
      return {8, 7};
    case tuttiFloat8e4m3:
      return {4, 3};
    case tuttiFloat8e5m2:
      return {5, 2};
    case tuttiFloat64:
      return {11, 52};
    default:
      return {8, 23};
  }
}

std::uint64_t encode(std::int64_t value, FloatFormat format) {
  if (value == 0) return 0;
  const std::uint64_t magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
  const int exponent = std::bit_width(magnitude) - 1;
  const std::uint64_t below_top = magnitude ^ (1ULL << exponent);  // 0 if the exponent exceeds the mantissa's bits
  const std::uint64_t fraction = below_top << std::max(format.mantissa_bits - exponent, 0);
  const std::uint64_t sign = value < 0 ? 1 : 0;
  return sign << (format.exponent_bits + format.mantissa_bits) |
         (format.bias() + static_cast<std::uint64_t>(exponent)) << format.mantissa_bits | fraction;
}

std::int64_t decode(std::uint64_t bits, FloatFormat format) {
  const std::uint64_t mask = (1ULL << format.mantissa_bits) - 1;
  const std::uint64_t exponent = bits >> format.mantissa_bits & ((1ULL << format.exponent_bits) - 1);
  if (exponent == 0) return 0;
  const double significand = static_cast<double>((bits & mask) | (mask + 1));
  const int scale = static_cast<int>(exponent) - static_cast<int>(format.bias()) - format.mantissa_bits;
  const auto magnitude = std::llround(std::ldexp(significand, scale));
  return (bits >> (format.exponent_bits + format.mantissa_bits) & 1) == 1 ? -magnitude : magnitude;
}

}  // namespace

std::int64_t exact_limit(tuttiDataType_t type) {
  return std::int64_t{1} << std::min(format_of(type).mantissa_bits + 1, 20);
}

std::uint64_t element_of(std::int64_t number, const TypeName& type) {
  return type.floating ? encode(number, format_of(type.type)) : static_cast<std::uint64_t>(number);
}

std::int64_t number_of(std::uint64_t element, const TypeName& type) {
  if (type.floating) return decode(element, format_of(type.type));
  const int unused = 64 - 8 * static_cast<int>(type.bytes);
  if (is_signed(type.type)) return static_cast<std::int64_t>(element << unused) >> unused;
  return static_cast<std::int64_t>(element << unused >> unused);
}

bool is_signed(tuttiDataType_t type) {
  return type == tuttiInt8 || type == tuttiInt16 || type == tuttiInt32 || type == tuttiInt64;
}

}  // namespace tutti::perf
