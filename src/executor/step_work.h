// What a step does with its chunks, on whatever transport: reductions and copies, into the memory of a message and into
// a buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "executor/executor.h"
#include "kernels/kernels.h"
#include "schedule/binding.h"

namespace tutti {

/// How far a lane has come, and what it remembers of a step that is not complete yet.
struct LaneState {
  std::size_t tile = 0;
  std::uint32_t step = 0;
  std::size_t asides = 0;            ///< of the steps that may run at any time, in all tiles: how many have run
  Fingerprint fingerprint = 0;       ///< of the messages of the step under way
  int seen = 0;                      ///< how many of a set of peers have been peeked at
  int place = 0;                     ///< this rank's place in that set
  std::vector<const void*> sources;  ///< the sources of the set, in its order; this rank's is at its place
};

/// Does the work of steps, for one call after another. One thread.
class StepWork {
 public:
  /// `ranks`: of the communicator, which a schedule may be for some of only.
  explicit StepWork(int ranks) : stores_(1 + static_cast<std::size_t>(ranks)) {}
  /// Prepares for a call. Allocates only if the schedule needs more scratch than any before.
  void bind(const Launch& launch);
  /// The launch that was bound last.
  const Launch& launch() const { return *launch_; }
  const Binding& binding() const { return binding_; }
  std::size_t scratch_bytes() const { return scratch_.capacity(); }
  SlotStores& stores_to_all() { return stores_[0]; }

  /// Does the work of a step on `count` elements, at least one. `arrived` is the message if the step receives from one
  /// rank, else nullptr; messages of a set are the lane's sources. `slot` is the memory of the message that the step
  /// sends, or nullptr.
  void run(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  static bool is_set(PeerSet set) { return set >= PeerSet::kAll; }
  /// The kernel that reduces for this launch, which need not be bound. It is looked up when the kind of reduction
  /// changes.
  ReduceKernel kernel(const Launch& launch) {
    if (kernel_ == nullptr || launch.wire != kernel_type_ || launch.op != kernel_op_) [[unlikely]] {
      kernel_ = launch.user != nullptr ? reduce_by_user : reduce_kernel(launch.wire, launch.op);
      kernel_type_ = launch.wire;
      kernel_op_ = launch.op;
    }
    return kernel_;
  }

 private:
  bool is_alone(const Step& step) const;
  void run_range(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  void run_span(LaneState& lane, const Step& step, const std::byte* arrived, std::byte* slot);
  void run_narrow(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  void run_piece(LaneState& lane, const Step& step, std::size_t at, std::size_t count, const std::byte* arrived,
                 std::byte* slot);
  void reduce(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot,
              std::byte* stored);
  ReduceArgs operands(LaneState& lane, const Step& step, const void* own, const std::byte* arrived, const void** pair);

  const Launch* launch_ = nullptr;
  Binding binding_;                    // of *launch_
  std::vector<SlotStores> stores_;     // of the link to all at once, then of those to each rank
  SlotStores* link_stores_ = nullptr;  // those of the step that runs
  std::vector<std::byte> scratch_;     // chunks in the wire type
  ReduceKernel kernel_ = nullptr;      // for kernel_type_ and kernel_op_
  DataType kernel_type_ = DataType::kInt8;
  RedOp kernel_op_ = RedOp::kSum;
};

}  // namespace tutti
