// Whether the CUDA driver is there and in use, asked without starting it: its start takes longer than many a program
// that uses no device.
#pragma once

namespace tutti {

/// Whether the process has started the driver and found devices. Once true, it stays true. Any thread.
bool cuda_is_in_use();
/// Whether the system has a driver. Any thread.
bool cuda_is_installed();

}  // namespace tutti
