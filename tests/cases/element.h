// Values of the cases: what rank r holds at index i, and what a reduction of them gives, type by type.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::cases {

/// Values repeat with this prime period, so that expected results are made once a case.
inline constexpr std::size_t kPeriod = 2053;

using Bytes = std::vector<unsigned char>;

std::size_t width_of(tuttiDataType_t type);
const char* name_of(tuttiDataType_t type);
bool is_float(tuttiDataType_t type);

/// Operations: the built-in ones with the numbers of tuttiRedOp_t, then those that the cases make.
enum class Operation {
  kSum,
  kProd,
  kMax,
  kMin,
  kAvg,
  kBitAnd,
  kBitOr,
  kBitXor,
  kMulSum,  ///< PreMulSum, each rank its own scalar
  kAffine,  ///< made by callback: composition of maps x -> a x + b, associative and not commutative
  kUnion,   ///< made by callback: the bits of both, whatever the type
};
/// Whether the library defines the operation for the type.
inline bool is_defined(Operation op, tuttiDataType_t type) {
  if (op >= Operation::kBitAnd && op <= Operation::kBitXor) return !is_float(type);
  return op != Operation::kAvg || type != tuttiBool;
}

/// One period of rank `rank`'s contribution to `op`.
Bytes contribution(tuttiDataType_t type, Operation op, int rank, int ranks);
/// One period of the result: contributions combined in rank order.
Bytes reduction(tuttiDataType_t type, Operation op, int ranks);
/// The scalar of rank `rank` for kMulSum, as one element.
Bytes scalar(tuttiDataType_t type, int rank);

/// An element of `width` bytes is the map x -> a x + b modulo 2^(4 width): a in its upper half, b in the lower. The map
/// of `first`, then that of `second`.
std::uint64_t composed(std::uint64_t first, std::uint64_t second, std::size_t width);
/// contribution and reduction of kAffine and kUnion, which see nothing of a type but its width.
Bytes raw_contribution(std::size_t width, Operation op, int rank);
Bytes raw_reduction(std::size_t width, Operation op, int ranks);

/// One period of data that only moves: any bits, other ones for each `stream`.
Bytes payload(tuttiDataType_t type, int stream);

/// A random number that depends on nothing but its arguments.
std::uint64_t dice(std::uint64_t seed, std::uint64_t a, std::uint64_t b);

}  // namespace tutti::cases
