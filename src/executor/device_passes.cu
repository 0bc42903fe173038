// The kernel of passes before and behind a collective.
#include "executor/interpreter_kernels.h"
#include "kernels/device_pass.h"

namespace tutti {

namespace {
__global__ void __launch_bounds__(kPassThreads) run_pass(const __grid_constant__ DevicePass pass) {
  const std::size_t thread = std::size_t{blockIdx.x} * kPassThreads + threadIdx.x;
  device::run_pass(thread, std::size_t{gridDim.x} * kPassThreads, pass);
}
}  // namespace

const void* pass_kernel() { return reinterpret_cast<const void*>(&run_pass); }

}  // namespace tutti
