#include "data.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "number.h"
#include "user_op.h"

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

std::int64_t spread(std::uint64_t bits, std::int64_t bound) {
  return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(2 * bound + 1)) - bound;
}

/// A floating-point contribution, as an integer. `turn` gives each rank another role at each element. To a sum so few
/// ranks contribute anything but 0 that the largest sum is exact.
std::int64_t float_value(tuttiDataType_t type, Operation op, int rank, int ranks, std::size_t i) {
  const std::int64_t limit = exact_limit(type);
  const auto n = static_cast<std::int64_t>(ranks);
  const std::int64_t turn = (rank + static_cast<std::int64_t>(i)) % n;
  switch (op) {
    case Operation::kSum:
    case Operation::kCustom:
      return turn < limit ? spread(noise(rank, i), std::clamp<std::int64_t>(limit / n, 1, 50)) : 0;
    case Operation::kMulSum:  // scalars are at most 2
      return turn < limit / 2 ? spread(noise(rank, i), std::clamp<std::int64_t>(limit / 2 / n, 1, 50)) : 0;
    case Operation::kProd:
      return (turn < 3 && noise(rank, i) % 2 == 0 ? 2 : 1) * (noise(rank, i) % 3 == 0 ? -1 : 1);
    case Operation::kAvg: {
      const std::int64_t base = spread(mixed(i), std::min<std::int64_t>(3, (limit - 1) / n));
      if (turn % 2 == 1) return base - 1;
      return turn + 1 < n ? base + 1 : base;  // pairs cancel, so the sum is n times the base
    }
    default:
      return spread(noise(rank, i), std::min<std::int64_t>(limit, 1000));
  }
}

/// An integer contribution of arbitrary bits. For AND and OR one rank alone decides each bit, another one at each
/// element.
std::uint64_t integer_value(Operation op, int rank, int ranks, std::size_t i) {
  if (op == Operation::kProd) return noise(rank, i) | 1;  // an even factor would soon make every product zero
  if (op != Operation::kBitAnd && op != Operation::kBitOr) return noise(rank, i);
  std::uint64_t own = 0;
  for (std::size_t bit = 0; bit < 64; ++bit) {
    if ((bit + i) % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank)) own |= 1ULL << bit;
  }
  own &= mixed(i);
  return op == Operation::kBitOr ? own : ~own;
}

bool bool_value(Operation op, int rank, int ranks, std::size_t i) {
  if (op == Operation::kBitXor) return noise(rank, i) % 2 == 1;
  const bool deciding = i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank) && mixed(i) % 2 == 1;
  const bool any = op != Operation::kProd && op != Operation::kMin && op != Operation::kBitAnd;
  return any == deciding;
}

bool is_less(std::int64_t a, std::int64_t b, const TypeName& type) {
  if (is_signed(type.type) || type.floating) return a < b;
  return static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);
}

std::int64_t combined(std::int64_t a, std::int64_t b, Operation op, const TypeName& type) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (op) {
    case Operation::kProd:
      return static_cast<std::int64_t>(x * y);
    case Operation::kMax:
      return is_less(a, b, type) ? b : a;
    case Operation::kMin:
      return is_less(a, b, type) ? a : b;
    case Operation::kBitAnd:
      return a & b;
    case Operation::kBitOr:
      return a | b;
    case Operation::kBitXor:
      return a ^ b;
    default:
      return static_cast<std::int64_t>(x + y);
  }
}

std::int64_t average(std::int64_t sum, int ranks, const TypeName& type) {
  if (type.floating) return sum / ranks;
  const std::int64_t wrapped = number_of(static_cast<std::uint64_t>(sum), type);
  if (is_signed(type.type)) return wrapped / ranks;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(wrapped) / static_cast<std::uint64_t>(ranks));
}

/// A contribution as a number. Booleans are 0 or 1, floats the integers that they hold.
std::int64_t value(const Reduction& reduction, int rank, int ranks, std::size_t i) {
  const TypeName& type = reduction.type;
  if (type.type == tuttiBool) return bool_value(reduction.op, rank, ranks, i) ? 1 : 0;
  if (type.floating) return float_value(reduction.exact_in, reduction.op, rank, ranks, i);
  return number_of(integer_value(reduction.op, rank, ranks, i), type);
}

/// The contribution as it enters the reduction.
std::int64_t term(const Reduction& reduction, int rank, int ranks, std::size_t i) {
  const std::int64_t number = value(reduction, rank, ranks, i);
  if (reduction.op != Operation::kMulSum) return number;
  const auto scalar = static_cast<std::uint64_t>(scalar_of(reduction.type, rank));
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(number) * scalar);
}

std::int64_t reduced(const Reduction& reduction, int ranks, std::size_t i) {
  std::int64_t result = term(reduction, 0, ranks, i);
  for (int rank = 1; rank < ranks; ++rank) {
    result = combined(result, term(reduction, rank, ranks, i), reduction.op, reduction.type);
  }
  if (reduction.op == Operation::kAvg) return average(result, ranks, reduction.type);
  return reduction.type.type == tuttiBool && result > 1 ? 1 : result;
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

Pattern reduction_input(const Reduction& reduction, int rank, int ranks) {
  const auto bits = [&](std::size_t i) { return element_of(value(reduction, rank, ranks, i), reduction.type); };
  return make_pattern(reduction.type, bits);
}

Pattern reduction_result(const Reduction& reduction, int ranks) {
  const auto bits = [&](std::size_t i) { return element_of(reduced(reduction, ranks, i), reduction.type); };
  return make_pattern(reduction.type, bits);
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
