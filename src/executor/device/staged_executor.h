// The staged executor: device buffers where no kernel can reach the peers, or where the processor has to compute. Data
// goes through host memory of this library, and what runs between is the host's executor, with the schedule and the
// messages of a call on host memory: peers cannot tell, and may have buffers of either kind. Of a call at two levels
// only what goes between hosts takes that way (two_level_stage.h).
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
#include "executor/device/staged_buffers.h"
#include "executor/device/transfer_segments.h"

namespace tutti {

/// One per rank and communicator. A call is cut into segments; while the host's executor works on one, the copy engine
/// brings the next and takes the last away. Threads: as Executor, hold() by the API's thread.
class StagedExecutor final : public HostedExecutor {
 public:
  StagedExecutor(DeviceDriver& driver, int device, Executor& host) : HostedExecutor(host), copies_{driver, device} {}
  ~StagedExecutor() override;

  /// Allocates the staging memory; blocks. `stream`: of the copies, which no kernel of another rank holds up; it
  /// outlives this. nullptr: no kernels of ranks wait for one another here, and a stream is made.
  Status open(DeviceDriver::Stream stream);
  int device() const { return copies_.device; }
  Bytes memory() const { return Bytes{2 * slots_.size() * staged_bytes_}; }

  /// A call that was made on a stream of the caller's begins after what is there now, and what is put there from now
  /// on waits until the call has ended, or until `gate` is gone. `device`: the stream's.
  Status hold(int device, DeviceDriver::Stream stream, std::shared_ptr<StreamGate>* gate);
  /// The next start() is of that call.
  void follow(std::shared_ptr<StreamGate> gate) { gate_ = std::move(gate); }
  /// Before start() of a collective.
  void bind(StagedBuffers buffers) { buffers_ = std::move(buffers); }

  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, WaitMonitor& monitor) override;
  void abandon() override;
  Status fault() const override { return fault_.ok() ? host().fault() : fault_; }

  void start(std::span<Transfer> transfers) override;
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override;

  Rank awaited() const override;
  /// Kernels and copies of a segment are short: what lasts, once the caller's work has ended, is held up by something.
  bool waits_for_device() const override {
    return !running_ && awaited() == kNoRank && (kernels_ == nullptr || !ready_);
  }
  std::uint64_t progress() const override;
  Rank mismatched() const override { return running_ ? host().mismatched() : kNoRank; }
  std::size_t scratch_bytes() const override { return memory().value; }
  void sleep(std::chrono::nanoseconds slice) override;

 private:
  /// Staging memory of one segment, and the copies that it takes part in.
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
  bool owns_stream_ = false;
  std::array<Slot, 2> slots_;
  std::size_t staged_bytes_ = 0;    // of each slot's input, and of its output
  std::vector<std::byte*> memory_;  // freed at the end: that may wait for work of the caller's
  std::shared_ptr<GateWords> words_;
  StreamPoint before_;  // what the call has to wait for
  StreamPoint after_;   // its last copy

  BlockSegments blocks_{copies_};
  RaggedSegments ragged_{copies_};
  TransferSegments transfers_{copies_};

  // Of the running call.
  StagedBuffers buffers_;
  StagedSegments* segments_ = &blocks_;
  DeviceExecutor* kernels_ = nullptr;  // that load and store its segments; nullptr: copies alone do
  std::shared_ptr<StreamGate> gate_;
  std::size_t loading_ = 0;  // segments whose input is on its way or there
  std::size_t at_ = 0;
  bool ready_ = false;    // before_ has come
  bool running_ = false;  // the host's executor works on segment at_
  bool draining_ = false;
  Status fault_;
  std::uint64_t progress_ = 0;
  /// While work of the caller's is waited for: it grows by an eighth a look, so no call begins later than that share of
  /// its wait.
  std::chrono::nanoseconds nap_{};
};

}  // namespace tutti
