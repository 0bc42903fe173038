// The interpreter's kernel for float and double.
#include "executor/device/interpreter_kernel.cuh"

namespace tutti {

namespace {
struct Pairs {
  static constexpr std::uint32_t kThreads = kInterpreterThreads;
  static constexpr device::Trees kTrees = device::Trees::kNever;
  template <class Sink>
  __device__ static void list(Sink& sink) {
    portable::list_reals(sink);
  }
};
}  // namespace

const void* real_interpreter() { return reinterpret_cast<const void*>(&run_call<Pairs>); }

}  // namespace tutti
