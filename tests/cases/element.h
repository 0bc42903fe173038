// Values of the cases: what rank r holds at index i, and what a reduction of them gives, type by type.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::cases {

/// Values repeat with this prime period, so that expected results are made once a case.
inline constexpr std::size_t kPeriod = 10007;

using Bytes = std::vector<unsigned char>;

std::size_t width_of(tuttiDataType_t type);
const char* name_of(tuttiDataType_t type);
bool is_float(tuttiDataType_t type);

/// One period of rank `rank`'s contribution to `op`.
Bytes contribution(tuttiDataType_t type, tuttiRedOp_t op, int rank, int ranks);
/// One period of the result: contributions combined in rank order.
Bytes reduction(tuttiDataType_t type, tuttiRedOp_t op, int ranks);
/// One period of data that only moves: any bits.
Bytes payload(tuttiDataType_t type, int rank);

}  // namespace tutti::cases
