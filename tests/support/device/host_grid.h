// A kernel's launch on the host: thread blocks are groups of threads, shared memory is memory that a group shares.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "executor/device/device_call.h"
#include "kernels/device/device_reduction.h"

namespace tutti::test {

/// How a call is run.
struct HostRun {
  /// Reduces elements of that many bytes: the part of a thread of so many.
  using Function = void (*)(unsigned thread, unsigned threads, device::ReduceArgs, Bytes);

  std::uint32_t threads = 2;                       ///< of a block
  std::chrono::microseconds pause{0};              ///< before each step
  Function instead = nullptr;                      ///< of the call's reduction
  std::atomic<std::uint64_t>* barriers = nullptr;  ///< counts those of the first block
};

/// Runs all blocks of a call to their end.
void run_on_host(const DeviceCall& call, const HostRun& how);
inline void run_on_host(const DeviceCall& call, std::uint32_t threads) { run_on_host(call, HostRun{threads}); }

}  // namespace tutti::test
