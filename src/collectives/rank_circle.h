// Ranks on a circle, and the powers of two that log-step algorithms count with. constexpr, host and device.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace tutti {

/// `rank` taken modulo `ranks` into 0..ranks-1; negative ranks count from the end.
TUTTI_HD constexpr std::int32_t wrap(std::int32_t rank, std::int32_t ranks) {
  const std::int32_t rest = rank % ranks;
  return rest < 0 ? rest + ranks : rest;
}

/// The largest k with 2^k <= n; n >= 1.
TUTTI_HD constexpr std::int32_t floor_log2(std::int32_t n) {
  std::int32_t k = 0;
  while (n >> (k + 1) != 0) ++k;
  return k;
}

/// The smallest k with 2^k >= n; n >= 1.
TUTTI_HD constexpr std::int32_t ceil_log2(std::int32_t n) { return n <= 1 ? 0 : floor_log2(n - 1) + 1; }

/// Whether the arc of `length` ranks that starts at `first` (0..ranks-1) holds rank 0.
TUTTI_HD constexpr bool arc_holds_zero(std::int32_t first, std::int32_t length, std::int32_t ranks) {
  return first == 0 || first + length > ranks;
}

}  // namespace tutti
