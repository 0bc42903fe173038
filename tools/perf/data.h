// Inputs whose exact result is known for every type and operation, and the comparison with it.
//
// Every buffer repeats a pattern of kPeriod elements (a prime, so that a chunk in the wrong place is noticed). Integers
// are arbitrary bits; floating-point values are integers, so few and so small that every partial result in any order is
// exact in the type itself. A collective that only moves data gets arbitrary bits, NaNs included.
#pragma once

#include <cstddef>
#include <vector>

#include "names.h"

namespace tutti::perf {

inline constexpr std::size_t kPeriod = 4099;

struct Pattern {
  std::size_t element_bytes = 1;
  std::vector<std::byte> bytes;  ///< kPeriod elements
};

struct Reduction {
  TypeName type;
  Operation op;
  tuttiDataType_t exact_in;  ///< for floats, the type in which all partial results are exact: `type` or the wire type
};

/// What rank `rank` of `ranks` contributes.
Pattern reduction_input(const Reduction& reduction, int rank, int ranks);
/// What the reduction gives.
Pattern reduction_result(const Reduction& reduction, int ranks);
/// What rank `rank` sends if data only moves.
Pattern moved_input(const TypeName& type, int rank);

/// Elements [0, count) of `buffer` become elements [first, first + count) of the repeated pattern.
void fill(std::byte* buffer, const Pattern& pattern, std::size_t first, std::size_t count);
/// How many elements differ, bit by bit, from what fill() writes.
std::size_t count_wrong(const std::byte* buffer, const Pattern& pattern, std::size_t first, std::size_t count);

/// Marks a buffer as never written. count_written() counts the elements that no longer carry the mark.
void poison(std::byte* buffer, std::size_t bytes);
std::size_t count_written(const std::byte* buffer, std::size_t count, std::size_t element_bytes);

}  // namespace tutti::perf
