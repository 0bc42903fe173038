// The CPU executor: the tile loop and the step body, compiled once a transport.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/ladder.h"
#include "executor/endpoint_links.h"
#include "executor/executor.h"
#include "executor/peer_exchange.h"
#include "kernels/kernels.h"
#include "schedule/binding.h"
#include "schedule/peer_list.h"

namespace tutti {

/// Lanes take turns: each runs until a step is blocked. A blocked step had no effect and is tried again as a whole; of
/// a receive from all, the messages already seen are remembered.
template <Endpoint E>
class CpuExecutor final : public Executor {
 public:
  /// `peers`: of sends and receives.
  CpuExecutor(std::unique_ptr<E> endpoint, const LadderPolicy& ladder, const PeerPolicy& peers)
      : endpoint_(std::move(endpoint)),
        links_(*endpoint_),
        exchange_(*endpoint_, peers),
        policy_(ladder),
        poll_delay_(!ladder.has_cores),
        rank_(endpoint_->rank().value),
        ranks_(endpoint_->ranks()),
        direct_sources_(static_cast<std::size_t>(ranks_)) {}

  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, WaitMonitor& monitor) override;
  void start(std::span<Transfer> transfers) override;
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override;
  void abandon() override { endpoint_->revoke_references(); }

  Rank missing() const override { return missing_; }
  /// A slow peer is not a silent one: also what has come in part counts.
  std::uint64_t progress() const override { return progress_ + exchange_.progress() + links_.bytes_moved(); }
  Rank mismatched() const override { return mismatched_; }
  std::size_t scratch_bytes() const override {
    return scratch_.capacity() + exchange_.kept_bytes() + links_.memory_bytes();
  }
  void sleep(std::chrono::nanoseconds slice) override { endpoint_->sleep(slice); }
  RankLinks& links() override { return links_; }
  const OpenTransfers& transfers() const override { return exchange_; }

 private:
  enum class Outcome : std::uint8_t { kDone, kBlocked, kMismatch };
  static constexpr bool kDirect = DirectEndpoint<E>;

  /// Where a lane stands, and what it holds of a step that is not complete yet.
  struct LaneState {
    std::size_t tile = 0;
    std::uint32_t step = 0;
    std::size_t asides = 0;            ///< of all tiles' steps that may run at any time, those that did
    Fingerprint fingerprint = 0;       ///< of the messages of the step under way
    int seen = 0;                      ///< of a set of peers, those already peeked at
    int place = 0;                     ///< the own rank's among them
    std::vector<const void*> sources;  ///< in the set's order, the own source at its place
  };

  bool run_aside(LaneState& lane, std::span<const Step> steps);
  Outcome run_step(LaneState& lane, const Step& step);
  Outcome run_step(LaneState& lane, const Step& step, Elems count);
  bool lends(const Step& step, Bytes bytes) const;
  Outcome send_reference(const LaneState& lane, const Step& step, Bytes bytes);
  Outcome receive(LaneState& lane, const Step& step, Bytes bytes, const std::byte** arrived);
  Peek peek(LaneState& lane, const Step& step, Route from, Bytes bytes);
  bool settled();
  Outcome receive_all(LaneState& lane, const Step& step, Bytes bytes);
  void compute(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  void compute_span(LaneState& lane, const Step& step, const std::byte* arrived, std::byte* slot);
  void reduce(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot,
              std::byte* stored);
  ReduceArgs operands(LaneState& lane, const Step& step, const void* own, const std::byte* arrived, const void** pair);
  void compute_on_wire(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  void compute_piece(LaneState& lane, const Step& step, std::size_t at, std::size_t count, const std::byte* arrived,
                     std::byte* slot);
  void release(const Step& step, Bytes bytes);
  static bool is_set(PeerSet set) { return set >= PeerSet::kAll; }
  bool is_alone(const Step& step) const;
  ReduceKernel kernel(const Launch& launch) {
    if (kernel_ == nullptr || launch.wire != kernel_type_ || launch.op != kernel_op_) [[unlikely]] {
      kernel_ = launch.user != nullptr ? reduce_by_user : reduce_kernel(launch.wire, launch.op);
      kernel_type_ = launch.wire;
      kernel_op_ = launch.op;
    }
    return kernel_;
  }
  Outcome advance_lane(LaneState& lane, std::uint32_t index);
  void bind(const Launch& launch);
  Outcome blocked_on(int peer);
  Status run_one_shot(const Launch& launch, WaitMonitor& monitor);
  bool all_arrived(const Launch& launch, Bytes bytes);
  Status wait(WaitMonitor& monitor);
  Status sleep_once(WaitMonitor& monitor);

  std::unique_ptr<E> endpoint_;
  EndpointLinks<E> links_;
  PeerExchange<E> exchange_;
  bool exchanging_ = false;  // the running operation is one of exchange_
  LadderPolicy policy_;
  Crowd crowd_;
  PollDelay poll_delay_;
  int rank_;
  int ranks_;
  const Launch* launch_ = nullptr;  // of the schedule that runs, or ran last
  ReduceKernel kernel_ = nullptr;   // for kernel_type_ and kernel_op_
  DataType kernel_type_ = DataType::kInt8;
  RedOp kernel_op_ = RedOp::kSum;
  Binding binding_;  // of *launch_
  std::size_t tiles_ = 0;
  std::vector<LaneState> lanes_;
  std::size_t active_lanes_ = 0;
  std::vector<std::byte> scratch_;           // chunks as they travel
  std::vector<const void*> direct_sources_;  // by rank, for run_one_shot
  Rank missing_ = kNoRank;
  Rank mismatched_ = kNoRank;
  std::uint64_t progress_ = 0;
};

}  // namespace tutti
