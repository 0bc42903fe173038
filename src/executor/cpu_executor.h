// The CPU executor, which runs a schedule tile by tile and moves the messages of its steps. It is compiled once for
// each transport.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/ladder.h"
#include "executor/endpoint_links.h"
#include "executor/executor.h"
#include "executor/point_to_point.h"
#include "executor/step_work.h"
#include "schedule/peer_list.h"

namespace tutti {

/// Lanes take turns: each runs until a step is blocked. A blocked step had no effect and is tried again as a whole, but
/// a receive from all remembers which messages it has seen.
template <Endpoint E>
class CpuExecutor final : public Executor {
 public:
  /// `transfers` is for sends and receives.
  CpuExecutor(std::unique_ptr<E> endpoint, const LadderPolicy& ladder, const PointToPointPolicy& transfers)
      : endpoint_(std::move(endpoint)),
        links_(*endpoint_, transfers.lane),
        point_to_point_(*endpoint_, transfers),
        policy_(ladder),
        contention_(ladder.ranks_per_core),
        poll_delay_(ladder.has_cores),
        first_poll_delay_(ladder.has_cores, 0),
        rank_(endpoint_->rank().value),
        ranks_(endpoint_->ranks()),
        lanes_(1) {}

  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, WaitMonitor& monitor) override;
  void start(std::span<Transfer> transfers) override;
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override;
  void abandon() override { endpoint_->revoke_references(); }

  Rank awaited() const override { return awaited_; }
  /// Messages that have come only in part count, too, because a slow peer is not a silent one.
  std::uint64_t progress() const override { return progress_ + point_to_point_.progress() + links_.bytes_moved(); }
  Rank mismatched() const override { return mismatched_; }
  std::size_t scratch_bytes() const override {
    return work_.scratch_bytes() + point_to_point_.kept_bytes() + links_.memory_bytes();
  }
  void sleep(std::chrono::nanoseconds slice) override { endpoint_->sleep(slice); }
  RankLinks& links() override { return links_; }
  const OpenTransfers& transfers() const override { return point_to_point_; }

 private:
  enum class Outcome : std::uint8_t { kDone, kBlocked, kMismatch, kNotByReference };
  static constexpr bool kNetwork = NetworkEndpoint<E>;

  bool run_aside(LaneState& lane, std::span<const Step> steps);
  Outcome run_step(LaneState& lane, const Step& step);
  Outcome run_step(LaneState& lane, const Step& step, Elems count);
  bool lends(const Step& step, Bytes bytes) const;
  Outcome send_reference(const LaneState& lane, const Step& step, Bytes bytes);
  Outcome receive(LaneState& lane, const Step& step, Bytes bytes, const std::byte** arrived);
  /// Whether a message may arrive where it, or what it is reduced to, is stored. What is reduced may not if the rank's
  /// own operand is there, and does not if the call is too large for the caches: the reduction then stores past them.
  static bool lands(const Launch& launch, const Step& step, const std::byte* own, const std::byte* stored) {
    return !step.has(kReduce) || (own != stored && !launch.stream_stores);
  }
  std::byte* landing(const LaneState& lane, const Step& step) const;
  /// A landing is for endpoints of a network alone.
  Peek peek_at(Route from, Bytes bytes, Fingerprint fingerprint, [[maybe_unused]] std::byte* landing) {
    if constexpr (kNetwork) return endpoint_->recv_peek(from, bytes, fingerprint, landing);
    return endpoint_->recv_peek(from, bytes, fingerprint);
  }
  bool settled();
  Outcome receive_all(LaneState& lane, const Step& step, Bytes bytes);
  void release(const Launch& launch, const Step& step, Bytes bytes);
  Outcome advance_lane(LaneState& lane, std::uint32_t index);
  Outcome blocked_on(int peer);
  Outcome blocked_on_readers(Route to);
  const Launch& launch() const { return work_.launch(); }
  const Binding& binding() const { return work_.binding(); }
  Status run_one_pass(const Launch& launch, WaitMonitor& monitor);
  bool run_whole_step(const Launch& launch, const Step& step, PollDelay* delay);
  bool find_messages(const Launch& launch, const Step& step, PollDelay* delay, std::byte* landing,
                     const void** arrived);
  Status wait(WaitMonitor& monitor);
  Progress sleep_once(const WaitMonitor& monitor);
  /// The only rank that can end the wait, or kNoRank if there are several.
  Rank only_awaited() const { return !runs_transfers_ && blocked_steps_ == 1 ? awaited_ : kNoRank; }

  std::unique_ptr<E> endpoint_;
  EndpointLinks<E> links_;
  PointToPoint<E> point_to_point_;
  bool runs_transfers_ = false;  // the running operation is one of point_to_point_
  LadderPolicy policy_;
  CoreContention contention_;
  PollDelay poll_delay_;        // after a message of this rank's
  PollDelay first_poll_delay_;  // of a call that begins with a look
  int rank_;
  int ranks_;
  StepWork work_;
  std::size_t tiles_ = 0;
  std::vector<LaneState> lanes_;
  std::size_t active_lanes_ = 0;
  Rank awaited_ = kNoRank;
  std::size_t blocked_steps_ = 0;  // in the last advance()
  Rank mismatched_ = kNoRank;
  std::uint64_t progress_ = 0;
};

}  // namespace tutti
