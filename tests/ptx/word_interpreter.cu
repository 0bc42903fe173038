// The interpreter with one reduction, sums of words of 32 bits: the same template as the library's, which translates
// and compiles in seconds.
#include "executor/device/interpreter_kernel.cuh"

namespace tutti {

namespace {
struct Pairs {
  static constexpr std::uint32_t kThreads = 96;  // three groups of 32
  static constexpr device::Trees kTrees = device::Trees::kNever;
  template <class Sink>
  __device__ static void list(Sink& sink) {
    // The first pair that is this code: portable::first_alike().
    sink.template add<portable::Plain<std::uint32_t>, portable::Add>(DataType::kInt32, RedOp::kSum);
  }
};
}  // namespace

const void* word_interpreter() { return reinterpret_cast<const void*>(&run_call<Pairs>); }

}  // namespace tutti
