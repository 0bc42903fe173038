// The translated interpreter that sums words of 32 bits: the library's in one program, a smaller one in the other.
#pragma once

#include "ptx/machine.h"
#include "support/device/host_grid.h"

namespace tutti::ptx {

const Kernel& word_interpreter_kernel();

/// A grid for DeviceCase: runs a call by translated PTX. How many threads a block has is said there.
void run_words(const DeviceCall& call, const test::HostRun& how);

}  // namespace tutti::ptx
