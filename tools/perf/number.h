// Whole numbers as elements of a type. The inputs and results of checked reductions are such numbers.
#pragma once

#include <cstdint>

#include "names.h"

namespace tutti::perf {

/// The largest N such that all integers up to N are exact in the type, bounded by 2^20 so that sums stay small.
std::int64_t exact_limit(tuttiDataType_t type);

/// The element that stands for a whole number, in the low bytes. For a float, |number| must be at most exact_limit or a
/// power of two in range; integers keep the low bits.
std::uint64_t element_of(std::int64_t number, const TypeName& type);

/// The number that an element stands for; a float must hold a whole number.
std::int64_t number_of(std::uint64_t element, const TypeName& type);

bool is_signed(tuttiDataType_t type);

}  // namespace tutti::perf
