// A check made in a join: does what ranks write into each other's device memory arrive?
#pragma once

#include "executor/device/device_executor.h"

namespace tutti {

/// The links that one check is about.
struct ProbedLinks {
  const Algorithm* algorithm;  ///< an all-to-all, or an all-gather for messages to all
  const char* name;            ///< for texts
};

/// All ranks call this together, before any other call. Runs the algorithm with small and with large messages and looks
/// at every element. Blocks; `monitor` says whether it is still worth waiting. Fails with kSystemError if something
/// else arrived than was sent, with kTimeout if nothing did.
Status probe_links(DeviceExecutor& executor, const ProbedLinks& links, Rank rank, int ranks, WaitMonitor& monitor);

}  // namespace tutti
