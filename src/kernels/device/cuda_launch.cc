#include "kernels/device/device_kernels.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace tutti::device {
namespace {

KernelTable all_kernels() {
  KernelTable all;
  for (const KernelTable& part : {integer_kernels(), real_kernels(), small_float_kernels()}) {
    for (int type = 0; type < kDataTypes; ++type) {
      for (int op = 0; op < kRedOps; ++op) {
        if (part.entries[type][op].kernel != nullptr) all.entries[type][op] = part.entries[type][op];
      }
    }
  }
  return all;
}

/// Constant: where the runtime keeps the kernels.
const KernelTable& kernels() {
  static const KernelTable table = all_kernels();
  return table;
}

KernelTable::Entry find(DataType type, RedOp op) {
  if (static_cast<int>(type) >= kDataTypes || is_user_made(op)) return {};
  return kernels().entries[static_cast<int>(type)][static_cast<int>(op)];
}

Status checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return fail(Code::kUnhandledCudaError, "{}: {}", what, cudaGetErrorString(error));
}

Status launch(const void* kernel, const Buffers& buffers, Bytes bytes, unsigned blocks, void* stream,
              const char* what) {
  if (bytes.value == 0) return {};
  const std::size_t needed = div_up(div_up(bytes.value, sizeof(Pack)), kThreadsInBlock);
  const auto grid = static_cast<unsigned>(std::min<std::size_t>(std::max(blocks, 1u), needed));
  Buffers parameter = buffers;
  void* parameters[] = {&parameter};
  return checked(
      cudaLaunchKernel(kernel, dim3(grid), dim3(kThreadsInBlock), parameters, 0, static_cast<cudaStream_t>(stream)),
      what);
}

}  // namespace

Status launch_reduce(const ReduceArgs& args, DataType type, RedOp op, unsigned blocks, void* stream) {
  const KernelTable::Entry entry = find(type, op);
  if (entry.kernel == nullptr)
    return fail(Code::kInvalidArgument, "no kernel computes {} of {}", name_of(op), name_of(type));
  if (args.source_count < 1 || args.source_count > kMostSources || args.destination_count < 1 ||
      args.destination_count > kMostDestinations) {
    return fail(Code::kInvalidArgument, "a kernel reduces 1 to {} sources into 1 to {} destinations, not {} into {}",
                kMostSources, kMostDestinations, args.source_count, args.destination_count);
  }
  if (args.tree && args.source_count > kMostInTree) {
    return fail(Code::kInvalidArgument, "a kernel reduces at most {} sources in the order of a tree, not {}",
                kMostInTree, args.source_count);
  }
  const Bytes bytes{args.count * size_of(type).value};
  Buffers buffers{};
  std::copy_n(args.sources, args.source_count, buffers.sources);
  std::copy_n(args.destinations, args.destination_count, buffers.destinations);
  buffers.source_count = args.source_count;
  buffers.destination_count = args.destination_count;
  buffers.count = bytes.value / entry.element.value;
  buffers.divisor = args.divisor;
  buffers.tree = args.tree;
  return launch(entry.kernel, buffers, bytes, blocks, stream, "launching a reduction");
}

Status launch_copy(const void* source, void* const* destinations, int destination_count, Bytes bytes, unsigned blocks,
                   void* stream) {
  if (destination_count < 1 || destination_count > kMostDestinations) {
    return fail(Code::kInvalidArgument, "a kernel copies to 1 to {} destinations, not {}", kMostDestinations,
                destination_count);
  }
  Buffers buffers{};
  buffers.sources[0] = source;
  std::copy_n(destinations, destination_count, buffers.destinations);
  buffers.source_count = 1;
  buffers.destination_count = destination_count;
  buffers.count = bytes.value;
  return launch(copy_kernel(), buffers, bytes, blocks, stream, "launching a copy");
}

Status load_kernels() {
  cudaFuncAttributes attributes;
  for (const auto& row : kernels().entries) {
    for (const KernelTable::Entry& entry : row) {
      if (entry.kernel == nullptr) continue;
      TUTTI_TRY(checked(cudaFuncGetAttributes(&attributes, entry.kernel), "loading a reduction"));
    }
  }
  return checked(cudaFuncGetAttributes(&attributes, copy_kernel()), "loading a copy");
}

}  // namespace tutti::device
