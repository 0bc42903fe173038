// The kernel around the interpreter.
//
// The interpreter is compiled once for each group of types; the reduction of each type and operation is a function that
// it calls. That costs one function call a step, while an interpreter for each pair would be seventy times as much
// code.
#pragma once

#include "executor/device/device_interpreter.h"
#include "executor/device/interpreter_kernels.h"
#include "kernels/reduction_list.h"

namespace tutti {

/// The threads of one thread block.
template <std::uint32_t kThreads>
class CudaBlock {
 public:
  __device__ std::uint32_t index() const { return blockIdx.x; }
  __device__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ std::uint32_t threads() const { return kThreads; }
  __device__ void sync() { __syncthreads(); }
  __device__ bool any(bool mine) { return __syncthreads_or(mine) != 0; }
};

template <std::uint32_t kThreads, class Format, class Op, device::Trees kTrees>
__device__ __noinline__ void reduce_apart(const device::ReduceArgs& args, Bytes element) {
  DeviceKernel<Format, Op, kTrees>().reduce(threadIdx.x, kThreads, args, element);
}

/// Finds the pair of type and operation that a call is about, and reduces. All threads take the same branches.
template <std::uint32_t kThreads, device::Trees kTrees>
class PairFinder {
 public:
  __device__ PairFinder(DataType type, RedOp op, const device::ReduceArgs& args, Bytes element)
      : pair_(pair_of(type, op)), args_(args), element_(element) {}

  template <class Format, class Op>
  __device__ void add(DataType type, RedOp op) {
    if constexpr (kTrees != device::Trees::kAlways || device::kOrderMatters<Format, Op>) {
      if (pair_of(type, op) == pair_) reduce_apart<kThreads, Format, Op, kTrees>(args_, element_);
    }
  }

 private:
  __device__ static unsigned pair_of(DataType type, RedOp op) {
    return static_cast<unsigned>(type) * kRedOps + static_cast<unsigned>(op);
  }
  unsigned pair_;
  const device::ReduceArgs& args_;
  Bytes element_;
};

/// A function of its own, because so many functions may be called here that the interpreter would have registers to
/// save.
template <class List>
__device__ __noinline__ void reduce_any(DataType type, RedOp op, const device::ReduceArgs& args, Bytes element) {
  PairFinder<List::kThreads, List::kTrees> finder(type, op, args, element);
  List::list(finder);
}

/// `List`: list(sink) calls sink.add() for the pairs of the group; kThreads is how many threads a block has; kTrees,
/// kNever or kAlways, is in which order all of the kernel's reductions go.
template <class List>
struct GroupKernel {
  DataType type;
  RedOp op;

  __device__ void reduce(unsigned, unsigned, const device::ReduceArgs& args, Bytes element) const {
    reduce_any<List>(type, op, args, element);
  }
};

template <class List>
__global__ void __launch_bounds__(List::kThreads, 1) run_call(const __grid_constant__ DeviceCall call) {
  __shared__ alignas(16) unsigned char shared[sizeof(BlockMemory)];
  using Block = CudaBlock<List::kThreads>;
  Block block;
  const GroupKernel<List> kernel{call.type, call.op};
  BlockMemory& memory = *reinterpret_cast<BlockMemory*>(shared);
  DeviceInterpreter<Block, GroupKernel<List>>(call, block, memory, kernel).run();
}

}  // namespace tutti
