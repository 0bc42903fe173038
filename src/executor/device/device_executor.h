// The device executor runs a communicator's schedules as kernels. The host launches them, looks whether they have
// ended, and reads from their report whom they wait for.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "device/call_end.h"
#include "executor/device/device_binding.h"
#include "executor/device/hosted_executor.h"
#include "transport/device/rank_device_links.h"

namespace tutti {

/// One per rank and communicator. As an Executor it is driven by one thread at a time. launch_on() and poll() are for
/// calls on the caller's own stream: the API's thread calls the first, any one other thread may call the second.
class DeviceExecutor final : public HostedExecutor {
 public:
  DeviceExecutor(std::unique_ptr<RankDeviceLinks> rank_links, Executor& host);
  ~DeviceExecutor() override;

  /// Makes the report and the events.
  Status open();
  int device() const { return rank_links_->device(); }
  DeviceDriver& driver() const { return rank_links_->driver(); }
  /// The number in the communicator of a rank of the schedules.
  Rank number(Rank rank) const { return rank_links_->number(rank); }
  /// Whether messages to all are announced in mirrors.
  bool has_mirror() const { return rank_links_->links().mirror != nullptr; }
  /// The stream on which calls run that have no stream of the caller's.
  DeviceDriver::Stream stream() const { return rank_links_->stream(); }
  /// How many thread blocks a call may have.
  std::uint32_t blocks() const { return rank_links_->links().geometry.blocks; }
  /// Allocates device memory for work that accompanies the rank's kernels. It is freed when this executor ends.
  Status reserve(Bytes bytes, std::byte** memory);
  /// The capabilities of its kernels' links.
  Capabilities capabilities();
  Bytes device_memory() const { return Bytes{rank_links_->memory().value + scratch_.bytes + made_.bytes}; }

  /// Puts the call on a stream; it runs after all earlier calls. If the stream is captured into a graph, the call
  /// becomes part of the graph and runs after the calls captured before it. Then `ended` is left empty, because the
  /// caller decides when the graph runs. Its failures are reported(), and what the call uses stays until this executor
  /// ends. If other ranks share the device, launch_on() is called in two parts.
  Status launch_on(const Launch& launch, DeviceDriver::Stream stream, std::shared_ptr<CallEnd>* ended);
  /// The first part: puts the call's kernel on the stream, and what comes before it. What the launch points to stays
  /// until finish_launch(). `capture` is what DeviceDriver::capture_of() says of the stream; the rank's own stream() is
  /// never captured.
  Status begin_launch(const Launch& launch, DeviceDriver::Stream stream, std::uint64_t capture = 0);
  /// Returns a rank of this process and device whose kernel of the same call must be launched before anything is put
  /// anywhere that waits for this rank's kernel, because its stream may share a hardware queue with what waits; kNoRank
  /// if there is none, if the calling thread has to launch that kernel first, or if it has not come for a second or a
  /// quarter of the call's timeout.
  Rank missing_launch();
  /// Whether other ranks of this process use the device.
  bool shares_device() const { return rank_links_->launches().share_device(rank_links_->rank()); }
  /// The second part, after begin_launch() has succeeded: puts what comes after the kernel on its stream.
  Status finish_launch(std::shared_ptr<CallEnd>* ended);
  /// Whether the host learns the ends of calls from the words that kernels store. Until somebody has seen that they
  /// arrive, it learns them from events. Called when all calls have ended.
  void trust_end_words(bool trust) {
    trusts_words_ = trust;
    unfinished_.clear();
  }
  /// Whether the kernel launched last has said that it has ended.
  bool has_said_end() const { return CallEnd(begun_.words, nullptr).has_ended(); }
  /// The calling thread makes the rank's calls.
  void note_thread() { rank_links_->launches().note_thread(rank_links_->rank()); }
  /// Whether another call may be launched: not so many have been that have not ended that a launch would block.
  bool has_room();
  /// Memory of the allocation that holds this is not lent to other processes any more; they close it at their next
  /// call. Any thread.
  void withdraw(const void* memory);
  /// Returns kInProgress while the call runs, then ok or why it failed. `what` names the call in texts.
  Status poll(const CallEnd& ended, const std::string& what) const;
  /// Polls the newest call.
  Status poll_last() const { return last_.end == nullptr ? Status{} : poll(*last_.end, "a call"); }
  /// The first failure that the rank's kernels reported. Any thread.
  Status reported(const std::string& what) const;
  /// Whom a kernel waited for when its deadline passed; kNoRank if that happened to none. Any thread.
  Rank timed_out() const;
  /// Returns what reported() does if calls were captured into graphs. Nobody else asks about those. Any thread.
  Status reported_by_graphs() const { return has_captured_.load() ? reported("a call of a CUDA graph") : Status{}; }
  /// Grows whenever a kernel's long wait has ended. Any thread.
  std::uint64_t waits() const { return load_relaxed(&report_->ended_waits); }
  /// Makes all running kernels of this rank give up. Any thread.
  void stop();

  using HostedExecutor::run;
  using HostedExecutor::start;
  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, WaitMonitor& monitor) override;
  void abandon() override;
  Status fault() const override { return fault_; }

  Rank awaited() const override;
  bool waits_for_device() const override { return awaited() == kNoRank; }
  std::uint64_t progress() const override { return progress_; }
  Rank mismatched() const override;
  std::size_t scratch_bytes() const override { return 0; }
  /// Sleeps only for a moment, because nothing announces the end of a kernel.
  void sleep(std::chrono::nanoseconds slice) override;

 private:
  /// Device memory that grows. When it does, the old memory stays for the calls that use it.
  struct Pool {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };
  Status grow(Pool* pool, Bytes bytes);
  Status put_kernel();
  bool is_far_ahead() const;
  bool may_finish();
  Status bind(Launch* launch, DeviceCall* call);
  void lend(Launch* launch, DevicePlace* place);
  Status make_inputs(const Launch& launch, DeviceDriver::Stream stream, Launch* inner);
  Status follow(DeviceDriver::Stream stream, std::uint64_t capture);
  Status mark_end(bool after_kernel, std::shared_ptr<CallEnd>* ended);
  Status table_of(const Schedule& schedule, DeviceDriver::Stream stream, bool captured, const Step** table);
  Status order_after_caller();
  bool stop_takes_too_long() const;
  bool has_last_ended() const;
  bool is_look_due() const;
  Status look_at_device() const;
  Status look_for_lost_kernel();

  std::unique_ptr<RankDeviceLinks> rank_links_;
  DeviceReport* report_ = nullptr;
  Pool scratch_;
  Pool made_;                  // products with a scalar, and inputs and outputs in the wire type
  std::vector<void*> memory_;  // device memory, freed only at the end, when no kernel of the rank runs
  std::map<const Schedule*, const Step*> tables_;
  std::shared_ptr<EventRing> events_;
  std::shared_ptr<DeviceEvent> health_;           // ended long ago; a look at it fails if the device has failed
  std::shared_ptr<DeviceEvent> tail_;             // comes after the newest call, once start()'s has run for long
  mutable std::atomic<Clock::rep> looked_at_{0};  // when the device was last looked at; needs no order
  std::uint64_t number_ = 0;                      // of the newest call that is in no graph
  bool changes_streams_ = false;                  // calls are on several streams, which wait for their events
  bool trusts_words_ = false;
  struct End {
    std::shared_ptr<CallEnd> end;
    DeviceDriver::Stream stream = nullptr;
    std::uint64_t capture = 0;  // 0 if it is not captured
  };
  /// The call between the two parts of its launch.
  struct Begun {
    Launch whole;
    Launch inner;  // what the kernel runs
    DeviceDriver::Stream stream = nullptr;
    std::uint64_t capture = 0;
    Clock::time_point when;
    EndWords words;
  };
  Begun begun_;
  bool is_begun_ = false;                            // a kernel is on its stream, and what comes after it is not
  std::deque<std::shared_ptr<CallEnd>> unfinished_;  // the ends of calls that may still run, oldest first
  End last_;                                         // of the newest call that is in no graph
  End captured_;                                     // of the newest call in a graph
  mutable std::atomic<Clock::rep> failed_since_{0};  // when a failed kernel was first seen to run on; needs no order
  std::atomic<bool> has_captured_{false};            // set before a graph can run; any order will do
  Status fault_;                                     // of the call that start() began
  std::uint64_t progress_ = 0;
  bool waited_for_device_ = false;  // waits_for_device() at the last advance()
};

}  // namespace tutti
