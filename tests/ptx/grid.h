// Runs a launch of a translated kernel: all its threads are fibers of the thread that calls.
#pragma once

#include "ptx/machine.h"

namespace tutti::ptx {

/// Runs `blocks` thread blocks to their end. Several threads may each run a launch that waits for the others'.
void run(const Kernel& kernel, const void* parameter, unsigned blocks);

}  // namespace tutti::ptx
