// Which kernel computes a type and operation, and what it takes. Shared by the files that hold kernels and the one that
// launches them, which has no use for CUDA's language.
#pragma once

#include "core/types.h"

namespace tutti::device {

inline constexpr int kMostSources = 32;
inline constexpr int kMostDestinations = 8;
inline constexpr unsigned kThreadsInBlock = 256;

/// A reduction's arguments with the lists themselves, as a kernel's parameter.
struct Buffers {
  const void* sources[kMostSources];
  void* destinations[kMostDestinations];
  int source_count;
  int destination_count;
  std::size_t count;
  std::uint32_t divisor;
  bool tree;
};

/// The kernels of some types.
struct KernelTable {
  struct Entry {
    const void* kernel = nullptr;  ///< as the runtime knows it; nullptr: the pair is not in this table
    Bytes element{};               ///< of the kernel's format: a value of the type may be several of them
  };
  Entry entries[kDataTypes][kRedOps] = {};
};

// One per file: the types are spread over files so that they compile side by side. Functions, because a kernel's
// address is no constant.
KernelTable integer_kernels();
KernelTable real_kernels();
KernelTable small_float_kernels();
const void* copy_kernel();

}  // namespace tutti::device
