// When a rank of another host dials the process that serves its id.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/units.h"

namespace tutti {

/// How long a rank of so many waits before it dials, if it has so much time `left` until the join's deadline. The
/// system of the process that serves the id keeps some 4,096 connections that were not accepted yet, and lets the
/// others wait a second or more (listen(2), TCP_SYN_RETRIES); the process takes less than 100 us for each. So ranks
/// above 512 come one after the other, 10,000 a second, or faster if else they took more than half of the time that is
/// left. (NCCL lets 7,000 a second come, NCCL_UID_STAGGER_RATE.)
inline std::chrono::nanoseconds dial_pause(Rank rank, int ranks, std::chrono::nanoseconds left) {
  constexpr std::int32_t kAtOnce = 512;
  constexpr std::chrono::nanoseconds kApart = std::chrono::microseconds{100};
  const int in_turn = std::max(ranks - kAtOnce, 1);
  return std::max(rank.value - kAtOnce, 0) * std::min(kApart, left / 2 / in_turn);
}

}  // namespace tutti
