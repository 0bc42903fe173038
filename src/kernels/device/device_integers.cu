// Integers and truth values.
#include "kernels/device/device_kernel.cuh"

namespace tutti::device {

KernelTable integer_kernels() {
  KernelFiller filler;
  portable::list_integers(filler);
  portable::list_bool(filler);
  return filler.table;
}

}  // namespace tutti::device
