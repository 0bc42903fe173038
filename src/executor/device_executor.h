// The device executor: runs a communicator's schedules as kernels. The host starts them, looks whether they have ended,
// and reads from their report whom they wait for.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/device_binding.h"
#include "executor/executor.h"
#include "transport/device_fabric.h"

namespace tutti {

/// The end of a kernel.
class DeviceEvent {
 public:
  static Status record(DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                       std::shared_ptr<DeviceEvent>* event);
  ~DeviceEvent() { (void)driver_.destroy_event(event_); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  DeviceDriver::Event get() const { return event_; }
  Status query(bool* done) const { return driver_.query(event_, done); }

 private:
  DeviceEvent(DeviceDriver& driver, DeviceDriver::Event event) : driver_(driver), event_(event) {}
  DeviceDriver& driver_;
  DeviceDriver::Event event_;
};

/// One a rank and communicator. As an Executor it is driven by one thread at a time; launch() and poll() serve calls on
/// the caller's own stream: the first by the API's thread, the second by any one other.
class DeviceExecutor final : public Executor {
 public:
  /// `host`: the executor of the rank's host buffers, which owns the board; it must outlive this one.
  DeviceExecutor(std::unique_ptr<DeviceSeat> seat, Executor& host);
  ~DeviceExecutor() override;

  /// Allocates what the report needs.
  Status open();
  int device() const { return seat_->device(); }
  DeviceDriver& driver() const { return seat_->driver(); }
  /// Where calls without a stream of the caller's run.
  DeviceDriver::Stream stream() const { return seat_->stream(); }
  Bytes device_memory() const { return Bytes{seat_->memory().value + scratch_bytes_}; }

  /// Puts the call on a stream, behind all earlier ones; `seconds`: how long one of its waits may last, 0: for ever.
  Status launch_on(const Launch& launch, DeviceDriver::Stream stream, double seconds,
                   std::shared_ptr<DeviceEvent>* ended);
  /// How it goes: kInProgress, ok, or what became of it. `what`: the call, for texts.
  Status poll(const DeviceEvent& ended, const std::string& what) const;
  /// The same for the newest call.
  Status poll_last() const { return last_ == nullptr ? Status{} : poll(*last_, "a call"); }
  /// The first failure that the rank's kernels reported. Any thread.
  Status reported(const std::string& what) const;
  /// Whom a kernel waited for when its deadline passed; kNoRank: none did. Any thread.
  Rank timed_out() const;
  /// Makes all running kernels of this rank give up. Any thread.
  void stop();

  Launch* launch() override { return &launch_; }
  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, Watch& watch) override;
  void abandon() override;
  Status fault() const override { return fault_; }

  // Sends and receives are the host executor's.
  void start(std::span<Transfer> transfers) override { host_.start(transfers); }
  Status run(std::span<Transfer> transfers, Watch& watch) override { return host_.run(transfers, watch); }
  const std::string& transfer_fault() const override { return host_.transfer_fault(); }
  const Transfer* open_transfer() const override { return host_.open_transfer(); }
  bool exchanges_with(Rank peer) const override { return host_.exchanges_with(peer); }

  Rank missing() const override;
  std::uint64_t progress() const override { return progress_; }
  Rank mismatched() const override;
  Capabilities capabilities() const override;
  std::size_t scratch_bytes() const override { return 0; }
  void announce_sleep() override {}
  void cancel_sleep() override {}
  void sleep(std::chrono::nanoseconds slice) override;
  void wake() override { woken_.store(true, std::memory_order_release); }
  void serve() override { host_.serve(); }
  bool delivered(Rank* late) override { return host_.delivered(late); }
  bool hears(Rank peer) override { return host_.hears(peer); }
  CallBoard& board() override { return host_.board(); }
  const CallBoard* board(Rank peer) const override { return static_cast<const Executor&>(host_).board(peer); }

 private:
  Status grow_scratch(Bytes bytes);
  Status table_of(const Schedule& schedule, DeviceDriver::Stream stream, const Step** table);
  Status order_behind_caller();
  void read_report();

  std::unique_ptr<DeviceSeat> seat_;
  Executor& host_;
  Launch launch_;
  DeviceReport* report_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::vector<void*> memory_;  // of the device: freed at the end only, because freeing waits for all kernels
  std::map<const Schedule*, const Step*> tables_;
  std::shared_ptr<DeviceEvent> last_;  // the end of the newest call
  DeviceDriver::Stream last_stream_ = nullptr;
  Status fault_;  // of the call that start() began
  std::uint64_t progress_ = 0;
  std::atomic<bool> woken_{false};  // set by wake(), pairs with the exchange in sleep()
};

}  // namespace tutti
