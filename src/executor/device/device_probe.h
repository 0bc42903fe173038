// The data check of a join: whether what ranks write into each other's device memory arrives.
#pragma once

#include "executor/device/device_executor.h"

namespace tutti {

/// What one check is about.
struct ProbedLinks {
  const Algorithm* algorithm;  ///< an all-to-all, or an all-gather for messages to all
  const char* name;            ///< for texts
};

/// All ranks together, before any other call: the algorithm with small and with large messages, every element of which
/// is looked at. Blocks; `monitor` says whether it is still worth it. kSystemError: something else arrived; kTimeout:
/// nothing did.
Status probe_links(DeviceExecutor& executor, const ProbedLinks& links, Rank rank, int ranks, WaitMonitor& monitor);

}  // namespace tutti
