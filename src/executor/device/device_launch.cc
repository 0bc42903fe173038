#include "executor/device/device_launch.h"

#include <algorithm>

#include "executor/device/interpreter_kernels.h"

namespace tutti {

#if !defined(TUTTI_HAVE_CUDA)
// Without CUDA no driver launches these.
const void* integer_interpreter() { return nullptr; }
const void* real_interpreter() { return nullptr; }
const void* small_float_interpreter() { return nullptr; }
const void* pass_function() { return nullptr; }
const void* rows_function() { return nullptr; }
#endif

namespace {

/// A pass over a buffer has at most so many thread blocks, which are enough for the largest devices.
constexpr std::size_t kPassBlocks = 1024;

constexpr Kernel kIntegers{integer_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kReals{real_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kSmallFloats{small_float_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kPass{pass_function, kPassThreads, "launching a pass over a buffer"};
constexpr Kernel kRows{rows_function, kPassThreads, "launching a copy"};
constexpr const Kernel* kKernels[] = {&kIntegers, &kReals, &kSmallFloats, &kPass, &kRows};

const Kernel& interpreter_of(DataType type) {
  if (!is_float(type)) return kIntegers;
  return type == DataType::kFloat32 || type == DataType::kFloat64 ? kReals : kSmallFloats;
}

}  // namespace

std::span<const Kernel* const> kernels_of_collectives() { return kKernels; }
const Kernel& pass_kernel() { return kPass; }
const Kernel& rows_kernel() { return kRows; }

Status launch(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const DeviceCall& call) {
  return driver.launch(device, stream, interpreter_of(call.type), call.grid(), &call);
}

// There are no more blocks than keep a device busy, so each thread takes several elements.
Status launch(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const DevicePass& pass) {
  const std::size_t blocks = std::min<std::size_t>(div_up(pass.count, 4 * kPassThreads), kPassBlocks);
  return driver.launch(device, stream, kPass, static_cast<unsigned>(blocks), &pass);
}

Status copy_rows(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const RowsCopy& copy) {
  const std::size_t bytes = copy.width * copy.rows;
  if (bytes > kRowsByKernel)
    return driver.copy_rows(device, copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy.width, copy.rows, stream);
  const std::size_t blocks = div_up(bytes, sizeof(device::Pack) * kPassThreads);
  return driver.launch(device, stream, kRows, static_cast<unsigned>(blocks), &copy);
}

}  // namespace tutti
