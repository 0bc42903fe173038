// The CPU executor: the tile loop and the step body, compiled once a transport.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/ladder.h"
#include "executor/executor.h"
#include "kernels/kernels.h"
#include "schedule/bind.h"

namespace tutti {

/// Lanes take turns: each runs until a step is blocked. A blocked step had no effect and is tried again as a whole; of
/// a receive from all, the messages already seen are remembered.
template <Endpoint E>
class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::unique_ptr<E> endpoint, const LadderPolicy& ladder)
      : endpoint_(std::move(endpoint)),
        policy_(ladder),
        rank_(endpoint_->rank().value),
        ranks_(endpoint_->ranks()),
        direct_sources_(static_cast<std::size_t>(ranks_)) {}

  void start(const Launch& launch) override;
  Progress advance() override;
  Status run(const Launch& launch, Watch& watch) override;

  Rank missing() const override { return missing_; }
  std::uint64_t progress() const override { return progress_; }
  Rank mismatched() const override { return mismatched_; }
  Capabilities capabilities() const override { return endpoint_->capabilities(); }
  std::size_t scratch_bytes() const override { return scratch_.capacity(); }
  void announce_sleep() override { endpoint_->announce_sleep(); }
  void cancel_sleep() override { endpoint_->cancel_sleep(); }
  void sleep(std::chrono::nanoseconds slice) override { endpoint_->sleep(slice); }
  void wake() override { endpoint_->wake(); }
  CallBoard& board() override { return endpoint_->board(); }
  const CallBoard* board(Rank peer) const override { return endpoint_->board(peer); }

 private:
  enum class Outcome : std::uint8_t { kDone, kBlocked, kMismatch };

  /// Where a lane stands, and what it holds of a step that is not complete yet.
  struct LaneState {
    std::size_t tile = 0;
    std::uint32_t step = 0;
    int seen = 0;                      ///< ranks already peeked at by a receive from all
    std::vector<const void*> sources;  ///< by rank; the own source stands at its place
  };

  Outcome run_step(LaneState& lane, const Step& step);
  Outcome receive(LaneState& lane, const Step& step, Bytes bytes, const std::byte** arrived);
  Outcome receive_all(LaneState& lane, const Step& step, Bytes bytes);
  void compute(LaneState& lane, const Step& step, ChunkRange range, const std::byte* arrived, std::byte* slot);
  void reduce(LaneState& lane, const Step& step, ChunkRange range, const std::byte* arrived, std::byte* slot,
              std::byte* stored);
  void release(const Step& step, Bytes bytes);
  ReduceKernel kernel(const Launch& launch) {
    if (kernel_ == nullptr || launch.type != kernel_type_ || launch.op != kernel_op_) [[unlikely]] {
      kernel_ = reduce_kernel(launch.type, launch.op);
      kernel_type_ = launch.type;
      kernel_op_ = launch.op;
    }
    return kernel_;
  }
  Outcome advance_lane(LaneState& lane, std::uint32_t index);
  std::byte* address(BufferId buffer, std::size_t tile, std::uint32_t chunk);
  Outcome blocked_on(int peer);
  Status run_one_shot(const Launch& launch, Watch& watch);
  bool all_arrived(const Launch& launch, Bytes bytes);
  Status wait(Watch& watch);
  Status sleep_once(Watch& watch);

  std::unique_ptr<E> endpoint_;
  LadderPolicy policy_;
  int rank_;
  int ranks_;
  Launch launch_;
  ReduceKernel kernel_ = nullptr;  // for kernel_type_ and kernel_op_
  DataType kernel_type_ = DataType::kInt8;
  RedOp kernel_op_ = RedOp::kSum;
  Tiling tiling_{Extent{}, Elems{0}, Elems{1}, Elems{1}};
  std::size_t tiles_ = 0;
  Bytes scratch_chunk_{0};
  std::vector<LaneState> lanes_;
  std::size_t active_lanes_ = 0;
  std::vector<std::byte> scratch_;
  std::vector<const void*> direct_sources_;  // by rank, for run_one_shot
  Rank missing_ = kNoRank;
  Rank mismatched_ = kNoRank;
  std::uint64_t progress_ = 0;
};

}  // namespace tutti
