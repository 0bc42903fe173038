#include "data.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tutti::perf {
namespace {

constexpr auto kPoison = std::byte{0xA9};

/// The finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
std::uint64_t noise(int rank, std::size_t i) { return mixed((static_cast<std::uint64_t>(rank) << 32) + i + 1); }

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
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

/// The bits of a small integer; exact because |value| < 2^(mantissa_bits + 1) or is a power of two.
std::uint64_t encode(std::int64_t value, FloatFormat format) {
  if (value == 0) return 0;
  const std::uint64_t magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
  const int exponent = std::bit_width(magnitude) - 1;
  const std::uint64_t bias = (1ULL << (format.exponent_bits - 1)) - 1;
  const std::uint64_t below_top = magnitude ^ (1ULL << exponent);  // 0 where the exponent exceeds the mantissa's bits
  const std::uint64_t fraction = below_top << std::max(format.mantissa_bits - exponent, 0);
  const std::uint64_t sign = value < 0 ? 1 : 0;
  return sign << (format.exponent_bits + format.mantissa_bits) |
         (bias + static_cast<std::uint64_t>(exponent)) << format.mantissa_bits | fraction;
}

/// Largest N such that all integers up to N are exact, bounded so that sums stay small.
std::int64_t exact_limit(tuttiDataType_t type) {
  return std::int64_t{1} << std::min(format_of(type).mantissa_bits + 1, 20);
}

std::int64_t spread(std::uint64_t bits, std::int64_t bound) {
  return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(2 * bound + 1)) - bound;
}

/// Floating-point contributions, as integers. `turn` gives each rank another role at each element.
std::int64_t float_value(tuttiDataType_t type, tuttiRedOp_t op, int rank, int ranks, std::size_t i) {
  const std::int64_t limit = exact_limit(type);
  const auto n = static_cast<std::int64_t>(ranks);
  const std::int64_t turn = (rank + static_cast<std::int64_t>(i)) % n;
  switch (op) {
    case tuttiSum:
      return turn < limit ? spread(noise(rank, i), std::clamp<std::int64_t>(limit / n, 1, 50)) : 0;
    case tuttiProd:
      return (turn < 3 && noise(rank, i) % 2 == 0 ? 2 : 1) * (noise(rank, i) % 3 == 0 ? -1 : 1);
    case tuttiAvg: {
      const std::int64_t base = spread(mixed(i), std::min<std::int64_t>(3, (limit - 1) / n));
      if (turn % 2 == 1) return base - 1;
      return turn + 1 < n ? base + 1 : base;  // pairs cancel: the sum is n times the base
    }
    default:
      return spread(noise(rank, i), std::min<std::int64_t>(limit, 1000));
  }
}

/// Integer contributions, arbitrary bits. For AND and OR each bit hangs on one rank alone, another at each element.
std::uint64_t integer_value(tuttiRedOp_t op, int rank, int ranks, std::size_t i) {
  if (op == tuttiProd) return noise(rank, i) | 1;  // an even factor would soon make every product zero
  if (op != tuttiBitAnd && op != tuttiBitOr) return noise(rank, i);
  std::uint64_t own = 0;
  for (std::size_t bit = 0; bit < 64; ++bit) {
    if ((bit + i) % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank)) own |= 1ULL << bit;
  }
  own &= mixed(i);
  return op == tuttiBitOr ? own : ~own;
}

bool bool_value(tuttiRedOp_t op, int rank, int ranks, std::size_t i) {
  if (op == tuttiBitXor) return noise(rank, i) % 2 == 1;
  const bool deciding = i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank) && mixed(i) % 2 == 1;
  const bool any = op == tuttiSum || op == tuttiMax || op == tuttiBitOr;
  return any == deciding;
}

bool is_signed(tuttiDataType_t type) {
  return type == tuttiInt8 || type == tuttiInt16 || type == tuttiInt32 || type == tuttiInt64;
}

/// Bits of a value of the type, widened to 64 bits with its sign.
std::int64_t widened(std::uint64_t bits, const TypeName& type) {
  const int unused = 64 - 8 * static_cast<int>(type.bytes);
  if (is_signed(type.type)) return static_cast<std::int64_t>(bits << unused) >> unused;
  return static_cast<std::int64_t>(bits << unused >> unused);
}

bool is_less(std::int64_t a, std::int64_t b, const TypeName& type) {
  if (is_signed(type.type) || type.floating) return a < b;
  return static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);
}

std::int64_t combined(std::int64_t a, std::int64_t b, tuttiRedOp_t op, const TypeName& type) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (op) {
    case tuttiProd:
      return static_cast<std::int64_t>(x * y);
    case tuttiMax:
      return is_less(a, b, type) ? b : a;
    case tuttiMin:
      return is_less(a, b, type) ? a : b;
    case tuttiBitAnd:
      return a & b;
    case tuttiBitOr:
      return a | b;
    case tuttiBitXor:
      return a ^ b;
    default:
      return static_cast<std::int64_t>(x + y);
  }
}

std::int64_t average(std::int64_t sum, int ranks, const TypeName& type) {
  if (type.floating) return sum / ranks;
  const std::int64_t wrapped = widened(static_cast<std::uint64_t>(sum), type);
  if (is_signed(type.type)) return wrapped / ranks;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(wrapped) / static_cast<std::uint64_t>(ranks));
}

/// Contributions as numbers: booleans 0 or 1, floats as the integers that they are.
std::int64_t value(const TypeName& type, tuttiRedOp_t op, int rank, int ranks, std::size_t i) {
  if (type.type == tuttiBool) return bool_value(op, rank, ranks, i) ? 1 : 0;
  if (type.floating) return float_value(type.type, op, rank, ranks, i);
  return widened(integer_value(op, rank, ranks, i), type);
}

std::int64_t reduced(const TypeName& type, tuttiRedOp_t op, int ranks, std::size_t i) {
  std::int64_t result = value(type, op, 0, ranks, i);
  for (int rank = 1; rank < ranks; ++rank) {
    result = combined(result, value(type, op, rank, ranks, i), op, type);
  }
  if (op == tuttiAvg) return average(result, ranks, type);
  return type.type == tuttiBool && result > 1 ? 1 : result;
}

template <class BitsOf>
Pattern make_pattern(const TypeName& type, BitsOf bits_of) {
  Pattern pattern{type.bytes, std::vector<std::byte>(kPeriod * type.bytes)};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const std::uint64_t bits = bits_of(i);
    std::memcpy(pattern.bytes.data() + i * type.bytes, &bits, type.bytes);  // little-endian, as all targets are
  }
  return pattern;
}

std::uint64_t bits_of_number(std::int64_t number, const TypeName& type) {
  return type.floating ? encode(number, format_of(type.type)) : static_cast<std::uint64_t>(number);
}

/// Calls body(buffer offset in bytes, pattern offset in bytes, bytes) for each run that is contiguous in both.
template <class Body>
void for_each_run(const Pattern& pattern, std::size_t first, std::size_t count, Body body) {
  std::size_t done = 0;
  while (done < count) {
    const std::size_t at = (first + done) % kPeriod;
    const std::size_t run = std::min(kPeriod - at, count - done);
    body(done * pattern.element_bytes, at * pattern.element_bytes, run * pattern.element_bytes);
    done += run;
  }
}

}  // namespace

Pattern reduction_input(const TypeName& type, tuttiRedOp_t op, int rank, int ranks) {
  return make_pattern(type, [&](std::size_t i) { return bits_of_number(value(type, op, rank, ranks, i), type); });
}

Pattern reduction_result(const TypeName& type, tuttiRedOp_t op, int ranks) {
  return make_pattern(type, [&](std::size_t i) { return bits_of_number(reduced(type, op, ranks, i), type); });
}

Pattern moved_input(const TypeName& type, int rank) {
  return make_pattern(type,
                      [&](std::size_t i) { return type.type == tuttiBool ? noise(rank, i) & 1 : noise(rank, i); });
}

void fill(std::byte* buffer, const Pattern& pattern, std::size_t first, std::size_t count) {
  for_each_run(pattern, first, count, [&](std::size_t at, std::size_t from, std::size_t bytes) {
    std::memcpy(buffer + at, pattern.bytes.data() + from, bytes);
  });
}

std::size_t count_wrong(const std::byte* buffer, const Pattern& pattern, std::size_t first, std::size_t count) {
  std::size_t wrong = 0;
  const std::size_t width = pattern.element_bytes;
  for_each_run(pattern, first, count, [&](std::size_t at, std::size_t from, std::size_t bytes) {
    if (std::memcmp(buffer + at, pattern.bytes.data() + from, bytes) == 0) return;
    for (std::size_t i = 0; i < bytes; i += width) {
      if (std::memcmp(buffer + at + i, pattern.bytes.data() + from + i, width) != 0) ++wrong;
    }
  });
  return wrong;
}

void poison(std::byte* buffer, std::size_t bytes) { std::fill_n(buffer, bytes, kPoison); }

std::size_t count_written(const std::byte* buffer, std::size_t count, std::size_t element_bytes) {
  std::size_t written = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* element = buffer + i * element_bytes;
    if (std::any_of(element, element + element_bytes, [](std::byte b) { return b != kPoison; })) ++written;
  }
  return written;
}

}  // namespace tutti::perf
