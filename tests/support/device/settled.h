// What a case leaves for the next ones of the same process: nothing, once it has been swept up.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstdio>

#include "comm/membership/hub.h"
#include "support/device/stand_in_driver.h"
#include "support/ranks.h"

namespace tutti::test {

/// A stream or a kernel that stalled leaves words and memory behind, which the next communicators free.
inline void sweep_device(int ranks) {
  run_threads(ranks, [](tuttiComm_t comm, int) {
    void* memory = nullptr;
    EXPECT_EQ(tuttiMemAllocDevice(&memory, sizeof(float), 0), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(memory, memory, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

/// Waits for communicators that were aborted, and sweeps up what can be. Before and after cases, when no other thread
/// calls.
inline bool settle_stand_in() {
  if (!is_stand_in_there()) return true;
  const bool all_gone = wait_for_no_hub(std::chrono::seconds(2));
  if (!all_gone) std::fprintf(stderr, "an earlier case has left a communicator\n");
  stand_in().forget_failures();
  for (std::size_t left = stand_in().allocations(), before = left + 1; left != 0 && left < before;) {
    before = left;
    for (const int ranks : {1, 2}) sweep_device(ranks);
    left = stand_in().allocations();
  }
  return all_gone;
}

}  // namespace tutti::test
