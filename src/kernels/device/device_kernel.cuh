// The kernel of one format and operation.
#pragma once

#include "kernels/device/device_kernel_table.h"
#include "kernels/device/device_reduction.h"

namespace tutti::device {

template <class Format, class Op>
__global__ void __launch_bounds__(kThreadsInBlock) reduce_kernel(const __grid_constant__ Buffers buffers) {
  const ReduceArgs args{buffers.sources, buffers.source_count, buffers.destinations, buffers.destination_count,
                        buffers.count,   buffers.divisor,      buffers.tree};
  reduce<Format, Op>(blockIdx.x * kThreadsInBlock + threadIdx.x, gridDim.x * kThreadsInBlock, args);
}

/// Fills a table from list_reductions().
struct KernelFiller {
  KernelTable table;

  template <class Format, class Op>
  void add(DataType type, RedOp op) {
    table.entries[static_cast<int>(type)][static_cast<int>(op)] = {
        reinterpret_cast<const void*>(&reduce_kernel<Format, Op>), Bytes{sizeof(typename Format::Storage)}};
  }
};

}  // namespace tutti::device
