// Runs calls that wait for kernels and copies of a device, whose end no event announces to a waiting thread.
#pragma once

#include <chrono>

#include "core/status.h"
#include "core/wait_monitor.h"
#include "executor/executor.h"

namespace tutti {

/// Advances what was started, on the calling thread, until it is done or `monitor` ends it. Once there has been no
/// progress for 4 ms, the thread sleeps between two looks, for a small part of the time that it has waited and for no
/// longer than `nap`.
Status run_polled(Executor& executor, WaitMonitor& monitor, std::chrono::microseconds nap);

}  // namespace tutti
