// The kernels of passes before and after a collective, and of small copies through host memory.
#include "executor/device/interpreter_kernels.h"
#include "kernels/device/device_pass.h"
#include "kernels/device/device_rows.h"

namespace tutti {

namespace {
__global__ void __launch_bounds__(kPassThreads) run_pass(const __grid_constant__ DevicePass pass) {
  const std::size_t thread = std::size_t{blockIdx.x} * kPassThreads + threadIdx.x;
  device::run_pass(thread, std::size_t{gridDim.x} * kPassThreads, pass);
}

__global__ void __launch_bounds__(kPassThreads) copy_rows(const __grid_constant__ RowsCopy copy) {
  const std::size_t thread = std::size_t{blockIdx.x} * kPassThreads + threadIdx.x;
  device::copy_rows(thread, std::size_t{gridDim.x} * kPassThreads, copy);
}
}  // namespace

const void* pass_function() { return reinterpret_cast<const void*>(&run_pass); }
const void* rows_function() { return reinterpret_cast<const void*>(&copy_rows); }

}  // namespace tutti
