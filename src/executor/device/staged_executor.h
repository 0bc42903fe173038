// The staged executor is for device buffers if no kernel can reach the peers, or if the processor has to compute. Data
// goes through host memory of this library, on which the host's executor runs the schedule. The messages are those of a
// call on host memory, so peers cannot tell, and may have buffers of either kind. Of a call at two levels only the data
// between hosts takes that way (two_level_stage.h).
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/stream_gate.h"
#include "device/stream_point.h"
#include "executor/device/block_segments.h"
#include "executor/device/copy_stream.h"
#include "executor/device/hosted_executor.h"
#include "executor/device/ragged_segments.h"
#include "executor/device/transfer_segments.h"

namespace tutti {

/// One per rank and communicator. A call is cut into segments. While the host's executor works on one, the copy engine
/// brings the next and takes the last away. Threads are those of an Executor, but the API's thread calls hold().
class StagedExecutor final : public HostedExecutor {
 public:
  StagedExecutor(DeviceDriver& driver, int device, Executor& host) : HostedExecutor(host), copies_{driver, device} {}
  ~StagedExecutor() override;

  /// Allocates the staging memory; blocks. The copies go on `stream`, which no kernel of another rank holds up and
  /// which outlives this. If no kernels of ranks wait for one another here, it may be nullptr; then a stream is made.
  Status open(DeviceDriver::Stream stream);
  int device() const { return copies_.device; }
  Bytes memory() const { return Bytes{2 * slots_.size() * staged_bytes_}; }

  /// kUnsupported if a stream that waits for a call would hold up the copies which end the wait.
  Status check_queues() const;
  /// Makes place for a call on a stream of the caller's, whose device is `device`. The call begins after what is on the
  /// stream now; what is put there from now on waits until the call has ended or `gate` is gone.
  Status hold(int device, DeviceDriver::Stream stream, std::shared_ptr<StreamGate>* gate);
  /// Says that the next start() is that of the call which hold() gave the gate to.
  void follow(std::shared_ptr<StreamGate> gate) { gate_ = std::move(gate); }
  /// Called before start() of a collective.
  void bind(StagedBuffers buffers) { buffers_ = std::move(buffers); }

  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, WaitMonitor& monitor) override;
  void abandon() override;
  Status fault() const override { return fault_.ok() ? host().fault() : fault_; }

  void start(std::span<Transfer> transfers) override;
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override;

  Rank awaited() const override;
  /// Kernels and copies of a segment are short, so if they last once the caller's work has ended, something is wrong.
  /// Therefore this is true only for calls without kernels, and before the caller's work has ended.
  bool waits_for_device() const override;
  std::uint64_t progress() const override;
  Rank mismatched() const override { return running_ ? host().mismatched() : kNoRank; }
  std::size_t scratch_bytes() const override { return memory().value; }
  void sleep(std::chrono::nanoseconds slice) override;

 private:
  /// The staging memory of one segment, and the copies into it and out of it.
  struct Slot {
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    StreamPoint loaded;
    StreamPoint stored;
  };
  void begin(StagedSegments* segments, DeviceExecutor* kernels = nullptr);
  Status grow(std::size_t bytes);
  Status step(Progress* outcome);
  static bool is_ready(const StreamPoint& point, Status* status);
  Status bring_next();
  Status work_on_one(Progress* outcome);
  Status take_away();
  Status drain(Progress* outcome);
  Status run(WaitMonitor& monitor);
  bool have_copies_ended();
  Slot& slot(std::size_t segment) { return slots_[segment % slots_.size()]; }

  CopyStream copies_;
  DeviceDriver::Limits limits_;
  bool owns_stream_ = false;
  std::array<Slot, 2> slots_;
  std::size_t staged_bytes_ = 0;    // the size of each slot's input, and of its output
  std::vector<std::byte*> memory_;  // freed only at the end, because that may wait for work of the caller's
  std::shared_ptr<GateWords> words_;
  StreamPoint before_;  // what the call has to wait for
  StreamPoint after_;   // its last copy

  BlockSegments blocks_{copies_};
  RaggedSegments ragged_{copies_};
  TransferSegments transfers_{copies_};

  // The running call.
  StagedBuffers buffers_;
  StagedSegments* segments_ = &blocks_;
  DeviceExecutor* kernels_ = nullptr;  // has the kernels that load and store segments; nullptr if copies alone do
  std::shared_ptr<StreamGate> gate_;
  std::size_t loading_ = 0;  // for how many segments the input is on its way or there
  std::size_t at_ = 0;
  bool ready_ = false;    // what the call has to wait for has ended
  bool running_ = false;  // the host's executor works on segment at_
  bool draining_ = false;
  Status fault_;
  std::uint64_t progress_ = 0;
  /// The sleep between looks while work of the caller's is waited for. It grows by an eighth with each look, so a call
  /// begins late by no more than about that share of its wait.
  std::chrono::nanoseconds nap_{};
};

}  // namespace tutti
