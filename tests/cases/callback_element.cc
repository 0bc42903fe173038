// Elements of the operations that the cases make by callback.
#include <cstring>

#include "cases/element.h"

namespace tutti::cases {
namespace {

/// What the callbacks combine: bits, whatever the type says.
std::uint64_t raw_value(std::size_t width, Operation op, int rank, std::size_t i) {
  const auto stream = static_cast<std::uint64_t>(rank);
  const std::uint64_t bits = dice(300, stream, i);
  const std::uint64_t odd = 1ULL << (4 * width);  // an even factor would soon make every product zero
  const std::uint64_t element = op == Operation::kAffine ? bits | odd : bits & dice(400, stream, i);
  return width == 8 ? element : element & ((1ULL << (8 * width)) - 1);
}

template <class ValueAt>
Bytes raw_period(std::size_t width, ValueAt value_at) {
  Bytes bytes(kPeriod * width);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const std::uint64_t value = value_at(i);
    std::memcpy(bytes.data() + i * width, &value, width);  // little-endian, as all targets are
  }
  return bytes;
}

}  // namespace

std::uint64_t composed(std::uint64_t first, std::uint64_t second, std::size_t width) {
  const std::size_t half = 4 * width;
  const std::uint64_t mask = (1ULL << half) - 1;
  const std::uint64_t a = (first >> half) * (second >> half) & mask;
  const std::uint64_t b = ((second >> half) * (first & mask) + (second & mask)) & mask;
  return a << half | b;
}

Bytes raw_contribution(std::size_t width, Operation op, int rank) {
  return raw_period(width, [&](std::size_t i) { return raw_value(width, op, rank, i); });
}

Bytes raw_reduction(std::size_t width, Operation op, int ranks) {
  return raw_period(width, [&](std::size_t i) {
    std::uint64_t result = raw_value(width, op, 0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const std::uint64_t next = raw_value(width, op, rank, i);
      result = op == Operation::kAffine ? composed(result, next, width) : result | next;
    }
    return result;
  });
}

}  // namespace tutti::cases
