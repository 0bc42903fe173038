// The interpreter's kernel for the floats of all sizes where a call asks for the order of a tree.
#include "executor/device/interpreter_kernel.cuh"

namespace tutti {

namespace {
struct Pairs {
  static constexpr std::uint32_t kThreads = kInterpreterThreads;
  static constexpr device::Trees kTrees = device::Trees::kAlways;
  template <class Sink>
  __device__ static void list(Sink& sink) {
    portable::list_reals(sink);
    portable::list_small_floats(sink);
  }
};
}  // namespace

const void* tree_interpreter() { return reinterpret_cast<const void*>(&run_call<Pairs>); }

}  // namespace tutti
