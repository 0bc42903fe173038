// Reductions and copies as kernels of their own: launched on a stream, spread over a bounded number of thread blocks.
// Only where the library is built with CUDA. No CUDA header is needed to include this.
#pragma once

#include "core/status.h"
#include "core/types.h"
#include "kernels/device/device_kernel_table.h"
#include "kernels/device/device_reduction.h"

namespace tutti::device {

/// Starts the reduction of `args` (its lists in host memory, which may go when this returns; its buffers memory that
/// the current device reaches; count in elements of `type`) on `stream`, a cudaStream_t of that device. At most
/// `blocks` thread blocks run, fewer where there is less to do; a count of 0 starts none. Does not block. Any thread.
/// tuttiInvalidArgument: a pair that is not offered, lists too long or empty; tuttiUnhandledCudaError: the launch
/// failed.
Status launch_reduce(const ReduceArgs& args, DataType type, RedOp op, unsigned blocks, void* stream);

/// Starts a copy of `bytes` to each of the destinations; all else is as for launch_reduce().
Status launch_copy(const void* source, void* const* destinations, int destination_count, Bytes bytes, unsigned blocks,
                   void* stream);

/// Loads all kernels on the current device, so that no launch has to wait for work that runs there. May block.
Status load_kernels();

}  // namespace tutti::device
