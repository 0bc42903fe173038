#include "executor/device/device_launch.h"

#include <algorithm>

#include "executor/device/interpreter_kernels.h"
#include "kernels/device/device_reduction.h"

namespace tutti {

#if !defined(TUTTI_HAVE_CUDA)
// Without CUDA no driver launches these.
const void* integer_interpreter() { return nullptr; }
const void* real_interpreter() { return nullptr; }
const void* small_float_interpreter() { return nullptr; }
const void* tree_interpreter() { return nullptr; }
const void* pass_function() { return nullptr; }
const void* rows_function() { return nullptr; }
#endif

namespace {

/// A pass over a buffer has at most so many thread blocks, which are enough for the largest devices.
constexpr std::size_t kPassBlocks = 1024;

constexpr Kernel kIntegers{integer_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kReals{real_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kSmallFloats{small_float_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kTrees{tree_interpreter, kInterpreterThreads, "launching a collective"};
constexpr Kernel kPass{pass_function, kPassThreads, "launching a pass over a buffer"};
constexpr Kernel kRows{rows_function, kPassThreads, "launching a copy"};
constexpr const Kernel* kKernels[] = {&kIntegers, &kReals, &kSmallFloats, &kTrees, &kPass, &kRows};

/// Whether the order of the sources shows in the result of some reduction of the call, which has to be that of a tree.
bool needs_trees(const DeviceCall& call) {
  const bool rounds = call.op == RedOp::kSum || call.op == RedOp::kAvg || call.op == RedOp::kProd;
  return call.tree_order && call.ranks > device::kAlikeInBothOrders && is_float(call.type) && rounds;
}

}  // namespace

const Kernel& interpreter_of(const DeviceCall& call) {
  if (!is_float(call.type)) return kIntegers;
  if (needs_trees(call)) return kTrees;
  return call.type == DataType::kFloat32 || call.type == DataType::kFloat64 ? kReals : kSmallFloats;
}
std::span<const Kernel* const> kernels_of_collectives() { return kKernels; }
const Kernel& pass_kernel() { return kPass; }
const Kernel& rows_kernel() { return kRows; }

Status launch(DeviceDriver& driver, int device, DeviceDriver::Stream stream, const DeviceCall& call) {
  return driver.launch(device, stream, interpreter_of(call), call.grid(), &call);
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
