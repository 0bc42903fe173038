// float and double; copies.
#include "kernels/device/device_kernel.cuh"

namespace tutti::device {
namespace {

__global__ void __launch_bounds__(kThreadsInBlock) copy_buffers(const __grid_constant__ Buffers buffers) {
  copy(blockIdx.x * kThreadsInBlock + threadIdx.x, gridDim.x * kThreadsInBlock, buffers.sources[0],
       buffers.destinations, buffers.destination_count, Bytes{buffers.count});
}

}  // namespace

KernelTable real_kernels() {
  KernelFiller filler;
  portable::list_reals(filler);
  return filler.table;
}

const void* copy_kernel() { return reinterpret_cast<const void*>(&copy_buffers); }

}  // namespace tutti::device
