// The kernel around the interpreter.
//
// The interpreter is compiled once for each group of types; the reductions of types and operations are functions that
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

/// Where the arguments of a reduction lie in the block's shared memory, as one word. A function that took a reference
/// would have all of them loaded before each of its many calls.
struct SharedArgs {
  std::uint32_t place;

  __device__ explicit SharedArgs(const device::ReduceArgs& args)
      : place(static_cast<std::uint32_t>(__cvta_generic_to_shared(&args))) {}
  __device__ const device::ReduceArgs& args() const {
    return *static_cast<const device::ReduceArgs*>(__cvta_shared_to_generic(place));
  }
};

template <std::uint32_t kThreads, class Format, class Op, device::Trees kTrees>
__device__ __noinline__ void reduce_apart(SharedArgs shared, std::uint32_t element) {
  DeviceKernel<Format, Op, kTrees>().reduce(threadIdx.x, kThreads, shared.args(), Bytes{element});
}

/// Numbers the pairs of type and operation.
__device__ constexpr std::uint32_t number_of(DataType type, RedOp op) {
  return static_cast<std::uint32_t>(type) * kRedOps + static_cast<std::uint32_t>(op);
}

/// Finds the pair of a number, and reduces. All threads take the same branches.
template <std::uint32_t kThreads, device::Trees kTrees>
class PairFinder {
 public:
  __device__ PairFinder(std::uint32_t pair, SharedArgs shared, std::uint32_t element)
      : pair_(pair), shared_(shared), element_(element) {}

  __device__ bool is_other(DataType type) const { return pair_ / kRedOps != static_cast<std::uint32_t>(type); }
  template <class Format, class Op>
  __device__ void add(DataType type, RedOp op) {
    if constexpr (kTrees != device::Trees::kAlways || device::kOrderMatters<Format, Op>) {
      const bool first = portable::first_alike(type, op).is(type, op);
      if (first && pair_ == number_of(type, op)) reduce_apart<kThreads, Format, Op, kTrees>(shared_, element_);
    }
  }

 private:
  const std::uint32_t pair_;
  const SharedArgs shared_;
  const std::uint32_t element_;
};

/// A function of its own, because so many functions may be called here that the interpreter would have registers to
/// save.
template <class List>
__device__ __noinline__ void reduce_any(std::uint32_t pair, SharedArgs shared, std::uint32_t element) {
  PairFinder<List::kThreads, List::kTrees> finder(pair, shared, element);
  List::list(finder);
}

/// `List`: list(sink) calls sink.add() for the pairs of the group; kThreads is how many threads a block has; kTrees,
/// kNever or kAlways, is in which order all of the kernel's reductions go.
template <class List>
struct GroupKernel {
  DataType type;
  RedOp op;

  __device__ void reduce(unsigned, unsigned, const device::ReduceArgs& args, Bytes element) const {
    reduce_any<List>(number_of(type, op), SharedArgs(args), static_cast<std::uint32_t>(element.value));
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
