// The interpreter's kernel for floats of 8 and 16 bits.
#include "executor/device/interpreter_kernel.cuh"

namespace tutti {

namespace {
struct Pairs {
  static constexpr std::uint32_t kThreads = kInterpreterThreads;
  static constexpr device::Trees kTrees = device::Trees::kNever;
  template <class Sink>
  __device__ static void list(Sink& sink) {
    portable::list_small_floats(sink);
  }
};
}  // namespace

const void* small_float_interpreter() { return reinterpret_cast<const void*>(&run_call<Pairs>); }

}  // namespace tutti
