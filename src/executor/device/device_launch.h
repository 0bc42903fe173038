// The kernels of collectives, and their launches.
#pragma once

#include <span>

#include "device/device_driver.h"
#include "executor/device/device_call.h"
#include "kernels/device/device_pass.h"
#include "kernels/device/device_rows.h"

namespace tutti {

/// The kernels that the functions below launch. DeviceDriver::load() must have loaded them before.
std::span<const Kernel* const> kernels_of_collectives();
/// The kernel that takes a DevicePass.
const Kernel& pass_kernel();
/// The kernel that takes a RowsCopy. All others but these two take a DeviceCall.
const Kernel& rows_kernel();

/// The kernel that runs the call.
const Kernel& interpreter_of(const DeviceCall& call);

/// Runs a call's blocks on the stream; `call` is copied. Any thread, does not block.
Status launch(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const DeviceCall& call);
/// Runs a pass over one buffer; `pass` is copied. Any thread, does not block.
Status launch(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const DevicePass& pass);
/// Copies rows between memory of the device and what DeviceDriver::allocate_pinned() gave, in the order of the stream.
/// A kernel copies few bytes, a copy engine more. Any thread, does not block.
Status copy_rows(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const RowsCopy& copy);

}  // namespace tutti
