// A call whose end nothing announces to a waiting thread: kernels and copies of a device.
#pragma once

#include <chrono>

#include "core/status.h"
#include "core/wait_monitor.h"
#include "executor/executor.h"

namespace tutti {

/// Advances what was started on the calling thread until it is done, or until `monitor` ends it. `nap`: the sleep
/// between two looks, once the call has lasted for a while.
Status run_polled(Executor& executor, WaitMonitor& monitor, std::chrono::microseconds nap);

}  // namespace tutti
