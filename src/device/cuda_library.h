// The library of the CUDA driver, as far as a process that may never use it wants to know of it: its start takes longer
// than many a program of the host.
#pragma once

namespace tutti {

/// Whether the process has started the driver, and found devices. Never false again. Any thread.
bool cuda_is_in_use();
/// Whether the system has one. Any thread.
bool cuda_is_installed();

}  // namespace tutti
