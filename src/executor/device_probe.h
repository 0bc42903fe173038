// The data check of a join: whether what ranks write into each other's device memory arrives.
#pragma once

#include "executor/device_executor.h"

namespace tutti {

/// All ranks together, before any other call: `all_to_all` with small and with large messages, every element of which
/// is looked at. Blocks; `watch` says whether it is still worth it. kSystemError: something else arrived; kTimeout:
/// nothing did.
Status probe_links(DeviceExecutor& executor, const Algorithm& all_to_all, Rank rank, int ranks, Watch& watch);

}  // namespace tutti
