// The interpreter's kernel for integers and truth values.
#include "executor/device/interpreter_kernel.cuh"

namespace tutti {

namespace {
struct Pairs {
  static constexpr std::uint32_t kThreads = kInterpreterThreads;
  static constexpr device::Trees kTrees = device::Trees::kNever;
  template <class Sink>
  __device__ static void list(Sink& sink) {
    portable::list_integers(sink);
    portable::list_bool(sink);
  }
};
}  // namespace

const void* integer_interpreter() { return reinterpret_cast<const void*>(&run_call<Pairs>); }

}  // namespace tutti
