// DeviceCalls runs the calls of a communicator whose process has a device. They find out where their buffers are, begin
// in a way of their own, and get places in CUDA streams.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/call/arguments.h"
#include "comm/call_driver.h"
#include "comm/device/device_side.h"
#include "comm/failure/kernel_monitor.h"
#include "comm/failure/peers.h"
#include "comm/failure/wait_judge.h"
#include "comm/graph_watch.h"
#include "core/status.h"
#include "core/units.h"
#include "device/call_end.h"
#include "device/stream_gate.h"

namespace tutti {

class CudaStream;

/// One per communicator. If the process has no device, exist() is false and calls need nothing of this. For the API's
/// thread, unless a function says otherwise.
class DeviceCalls {
 public:
  /// All arguments outlive this.
  DeviceCalls(CallDriver& driver, const Peers& peers, WaitJudge& judge, KernelMonitor& kernels)
      : driver_(driver), peers_(peers), judge_(judge), kernels_(kernels) {}

  /// Sets what serves calls on device memory. It is called before the first operation.
  void adopt(std::unique_ptr<DeviceSide> side);
  bool exist() const { return side_ != nullptr; }
  /// nullptr if the process has no device.
  DeviceSide* side() const { return side_.get(); }
  /// Ends the waits of this rank's kernels. Any thread.
  void stop_kernels();

  // The next functions take calls that have passed CallCheck. They need exist().

  /// Runs a call on whichever memory to its end, after all earlier operations.
  Status run(CallArguments* arguments);
  Status run(std::span<Transfer> transfers);
  /// Finds out where the buffers are, and what serves the call.
  Status locate(CallArguments* arguments) const { return side_->locate(arguments, peers_.rank().value); }
  Status locate(const Transfer& transfer) const { return side_->locate(transfer); }
  /// Whether the call can now go elsewhere than on a CUDA stream. Returns kInvalidUsage if the default stream is being
  /// captured. It may be called without a device, too.
  Status check_blocking(const CallArguments& arguments) const;
  Status check_blocking(std::span<const Transfer> transfers) const;

  // The next functions drive calls step by step. They need exist(), and belong to the thread whose turn it is.

  /// Whether this rank moves nothing in the call, so that only the other ranks know whether kernels run it. It may be
  /// called without a device, too.
  bool has_unknown_memory(const CallArguments& arguments) const;
  /// Finds that out from the other ranks' boards; kInProgress if they do not show it yet.
  Status resolve_memory_kind(const CallArguments& arguments, bool* on_device);
  /// Does what CallDriver::begin() does, for any call. `on_cuda_stream`: a CUDA stream orders the call already.
  Status begin(const CallArguments& arguments, bool* nothing_to_run, bool on_cuda_stream = false);
  Status begin(std::span<Transfer> transfers);

  // The next functions are for calls on CUDA streams.

  /// Whether a collective on a CUDA stream is put there by begin_on().
  bool launches(const CallArguments& arguments) const;
  /// The calling thread is about to make calls of this rank on CUDA streams, and perhaps of others.
  void note_thread();
  /// Puts a checked call on a CUDA stream, after all earlier calls. `launched` is for KernelMonitor::poll(). If
  /// `is_launched` becomes true, finish_on() has to follow before anything else. Blocks while earlier calls run that
  /// are not on CUDA streams.
  Status begin_on(const CallArguments& arguments, const CudaStream& stream, bool* is_launched, Call* launched);
  /// Whether other ranks of the process use the rank's device, so that a thread which makes calls of several ranks
  /// calls begin_on() for all of them before it calls finish_on() for the first.
  bool shares_device() const { return side_->executor()->shares_device(); }
  /// The second part. KernelMonitor::poll() finds out by `ended` how the call ends; it stays nullptr if the call has
  /// become part of a graph. Blocks until other ranks of this process that use the same device have launched the call,
  /// for at most a second. It does not wait for those whose calls the calling thread makes.
  Status finish_on(std::shared_ptr<CallEnd>* ended);
  /// Ends what looks after calls in graphs, before the executor goes.
  void stop_watch();
  /// Gives a collective that goes through host memory its place in the CUDA stream and in `queue`, which takes these
  /// calls one after another, whichever thread made them. `gate` stays nullptr if the call does not go through host
  /// memory.
  Status stage_on(const CudaStream& stream, void* queue, const CallArguments& arguments,
                  std::shared_ptr<StreamGate>* gate);
  /// Like the other stage_on(), for sends and receives, which always go through host memory.
  Status stage_on(const CudaStream& stream, std::span<const Transfer> transfers, std::shared_ptr<StreamGate>* gate);

  /// Whether a call may be repeated as one on host memory, for CallDriver::is_repeat().
  bool is_on_host(const CallArguments& arguments) const { return side_ == nullptr || side_->is_on_host(arguments); }
  /// Ends the registration of this memory.
  void withdraw(const void* memory);

 private:
  Status open_stage(const CudaStream& stream, StreamKey* place);
  Status check_default_stream(const char* what) const;
  void wait_for_kernels();
  Status wait_for_memory_kind(CallArguments* arguments);
  Status ask_memory_kind(const CallArguments& arguments);
  bool find_memory_kind(bool* on_device, Rank* awaited) const;
  Status judge_wait_for(Rank awaited);
  Status wait_for_launches(DeviceExecutor& executor);
  void watch_graphs();
  double kernel_timeout(bool runs_alone) const;
  Status bind_kernel(const CallArguments& arguments);
  Status bind_staged(const CallArguments& arguments);
  bool is_registered(const void* memory) const;

  CallDriver& driver_;
  const Peers& peers_;
  WaitJudge& judge_;
  KernelMonitor& kernels_;
  std::unique_ptr<DeviceSide> side_;   // nullptr if the process has no device
  std::shared_ptr<GraphWatch> watch_;  // nullptr as long as no call has become part of a graph
};

}  // namespace tutti
