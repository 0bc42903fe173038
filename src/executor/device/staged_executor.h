// The staged executor: device buffers where no kernel can reach the peers, or where the processor has to compute. Data
// goes through host memory of this library, and what runs between is the host's executor, with the schedule and the
// messages of a call on host memory: peers cannot tell, and may have buffers of either kind. Of a call at two levels
// only what goes between hosts takes that way (two_level_stage.h).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/stream_gate.h"
#include "device/stream_point.h"
#include "executor/device/hosted_executor.h"
#include "executor/device/two_level_stage.h"

namespace tutti {

/// What a staged call moves, besides its launch, whose input and output are nullptr where nothing is read or written.
struct StagedBuffers {
  std::size_t input_blocks = 1;  ///< of launch.count elements each; not for ragged blocks
  std::size_t output_blocks = 1;
  /// Done to elements that were read before they are used; empty: nothing.
  std::function<void(std::byte* data, std::size_t elements)> prepare;
  /// The ranks of a host do their part by kernels; nullptr: all of the call is the host's.
  TwoLevelStage* stage = nullptr;
  TwoLevelCall levels;
};

/// One a rank and communicator. A call is cut into segments of whole tiles; while the host's executor works on one, the
/// copy engine brings the next and takes the last away. Threads: as Executor, hold() by the API's thread.
class StagedExecutor final : public HostedExecutor {
 public:
  StagedExecutor(DeviceDriver& driver, int device, Executor& host)
      : HostedExecutor(host), driver_(driver), device_(device) {}
  ~StagedExecutor() override;

  /// Allocates the staging memory; blocks. `stream`: of the copies, which no kernel of another rank holds up; it
  /// outlives this. nullptr: no kernels of ranks wait for one another here, and a stream is made.
  Status open(DeviceDriver::Stream stream);
  int device() const { return device_; }
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

  /// Each transfer whose data is device memory gets host memory of its own for as long as it lasts.
  void start(std::span<Transfer> transfers) override;
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override;

  Rank missing() const override;
  /// A stage's kernels and copies are short: what lasts, once the caller's work has ended, is held up by something.
  bool works() const override { return !running_ && missing() == kNoRank && (stage_ == nullptr || !ready_); }
  std::uint64_t progress() const override;
  Rank mismatched() const override { return running_ ? host().mismatched() : kNoRank; }
  Capabilities capabilities() const override { return host().capabilities(); }
  std::size_t scratch_bytes() const override { return memory().value; }
  void announce_sleep() override { host().announce_sleep(); }
  void cancel_sleep() override { host().cancel_sleep(); }
  void sleep(std::chrono::nanoseconds slice) override;
  void wake() override { host().wake(); }

 private:
  /// Staging memory of one segment, and the copies that it takes part in.
  struct Slot {
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    StreamPoint loaded;
    StreamPoint stored;
  };
  /// What a segment has of each block, in elements; of a shorter block it has less, or nothing.
  struct Part {
    std::size_t first;
    std::size_t count;
    std::size_t of(std::size_t block) const { return block <= first ? 0 : std::min(count, block - first); }
  };

  void begin(TwoLevelStage* stage);
  Status cut();
  std::size_t tile_bytes() const;
  Status grow(std::size_t bytes);
  Status step(Progress* outcome);
  bool is_ready(const StreamPoint& point, Status* status);
  Status load_ahead();
  void start_segment();
  Status finish_segment();
  Status drain(Progress* outcome);
  Part part_of(std::size_t segment) const;
  Status load(std::size_t segment);
  Status store(std::size_t segment);
  bool is_foreign(const std::byte* buffer);
  Status move_ragged(const BlockTable& blocks, Part part, std::byte* staged, std::byte* buffer, bool in);
  Status move_rows(std::byte* staged, std::byte* buffer, std::size_t pitch, std::size_t width, std::size_t rows,
                   bool in);
  Status bring_transfers();
  Status return_transfers();
  Status run(WaitMonitor& monitor);
  bool have_copies_ended();
  Slot& slot(std::size_t segment) { return slots_[segment % slots_.size()]; }

  DeviceDriver& driver_;
  const int device_;
  DeviceDriver::Stream stream_ = nullptr;  // of the copies
  bool owns_stream_ = false;
  std::array<Slot, 2> slots_;
  std::size_t staged_bytes_ = 0;    // of each slot's input, and of its output
  std::vector<std::byte*> memory_;  // freed at the end: that may wait for work of the caller's
  std::shared_ptr<GateWords> words_;
  StreamPoint before_;  // what the call has to wait for
  StreamPoint after_;   // its last copy

  // Of the running call.
  Launch whole_;
  Launch segment_launch_;  // the host's part of it
  StagedBuffers buffers_;
  TwoLevelStage* stage_ = nullptr;
  std::shared_ptr<StreamGate> gate_;
  std::span<Transfer> transfers_;
  std::vector<Transfer> exchanged_;               // those with host memory
  std::vector<std::vector<std::byte>> memories_;  // of exchanged_
  std::vector<std::size_t> in_offsets_, out_offsets_;
  RaggedTiling ragged_;
  std::size_t segments_ = 0;
  std::size_t tiles_ = 1;    // of a segment
  std::size_t loading_ = 0;  // segments whose input is on its way or there
  std::size_t at_ = 0;
  bool peer_device_input_ = false;  // another device's memory
  bool peer_device_output_ = false;
  bool exchanging_ = false;
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
