// The floats of 8 and 16 bits.
#include "kernels/device/device_kernel.cuh"

namespace tutti::device {

KernelTable small_float_kernels() {
  KernelFiller filler;
  portable::list_small_floats(filler);
  return filler.table;
}

}  // namespace tutti::device
