// What a step does with its chunks, on whatever transport: reductions and copies, into the memory of a message and into
// a buffer.
#pragma once

#include <algorithm>
#include <array>
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
  int members = 0;                   ///< of that set, this rank included
  std::vector<const void*> sources;  ///< the sources of the set, in its order; this rank's is at its place

  /// Makes room for the sources of a set of so many ranks, if there is less. Allocates only then.
  void make_room(std::int32_t set) {
    if (sources.size() < static_cast<std::size_t>(set)) [[unlikely]]
      sources.resize(static_cast<std::size_t>(set));
  }
};

/// The elements, at least one, that a step works on at once, and where they are.
struct StepRange {
  Elems count;
  const std::byte* own = nullptr;      ///< the chunk that the step takes
  const std::byte* arrived = nullptr;  ///< the message of the one rank that it receives from; a set's are the lane's
  std::byte* stored = nullptr;         ///< where the step stores, if it does
  std::byte* slot = nullptr;           ///< memory of the message that the step sends, if it does
};

/// Does the work of steps, for one call after another. One thread.
class StepWork {
 public:
  /// Prepares for a call. Allocates only if the schedule needs more scratch than any before.
  void bind(const Launch& launch);
  /// The launch that was bound last.
  const Launch& launch() const { return *launch_; }
  const Binding& binding() const { return binding_; }
  std::size_t scratch_bytes() const { return scratch_.capacity(); }
  /// How the slots of the link are filled that the step sends to.
  SlotStores& stores(const Step& step) {
    return stores_[step.send_to == PeerSet::kOne ? 1 + static_cast<std::size_t>(step.send_peer) % kLinks : 0];
  }

  /// Does the work of a step on `count` elements, at least one. `arrived` is the message if the step receives from one
  /// rank, else nullptr; messages of a set are the lane's sources. `slot` is the memory of the message that the step
  /// sends, or nullptr.
  void run(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  /// Does the work of a step of any launch on elements that lie together. Messages are of the buffers' type. Inlined,
  /// so that no range is stored field by field and read back in larger pieces, which would wait for the stores.
  void run_range(const Launch& launch, LaneState& lane, const Step& step, const StepRange& range, SlotStores& stores);
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
  void run_bound_range(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  void run_span(LaneState& lane, const Step& step, const std::byte* arrived, std::byte* slot);
  void run_narrow(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot);
  void run_piece(LaneState& lane, const Step& step, std::size_t at, std::size_t count, const std::byte* arrived,
                 std::byte* slot);
  void reduce(const Launch& launch, LaneState& lane, const Step& step, const StepRange& range, SlotStores& stores);

  const Launch* launch_ = nullptr;
  Binding binding_;  // of *launch_
  /// The first is of the link to all at once, the others are of those to single ranks. Of more than 64 ranks several
  /// share one. That changes only the speed of large slots, because each comparison finds out again which way is
  /// faster.
  static constexpr std::size_t kLinks = 64;
  std::array<SlotStores, 1 + kLinks> stores_;
  std::vector<std::byte> scratch_;  // chunks in the wire type
  ReduceKernel kernel_ = nullptr;   // for kernel_type_ and kernel_op_
  DataType kernel_type_ = DataType::kInt8;
  RedOp kernel_op_ = RedOp::kSum;
};

/// Returns the operands of a reduction in the order that the step asks for. `pair` is memory for two of them.
inline ReduceArgs operands_of(const Launch& launch, LaneState& lane, const Step& step, const void* own,
                              const std::byte* arrived, const void** pair) {
  ReduceArgs args;
  if (StepWork::is_set(step.recv_from)) {
    lane.sources[static_cast<std::size_t>(lane.place)] = own;
    args.sources = lane.sources.data();
    args.source_count = lane.members;
  } else {
    pair[0] = step.is(kOwnLeft) ? own : arrived;
    pair[1] = step.is(kOwnLeft) ? arrived : own;
    args.sources = pair;
    args.source_count = 2;
  }
  args.divisor = step.is(kComplete) ? launch.divisor : 1;
  args.order = launch.tree_order ? ReduceOrder::kTree : ReduceOrder::kLeft;
  args.user = launch.user;
  return args;
}

[[gnu::always_inline]] inline void StepWork::reduce(const Launch& launch, LaneState& lane, const Step& step,
                                                    const StepRange& range, SlotStores& stores) {
  const void* pair[2];
  ReduceArgs args = operands_of(launch, lane, step, range.own, range.arrived, pair);
  args.count = range.count.value;
  if (range.slot != nullptr) {
    args.destination = range.slot;
    args.second = range.stored;
    return reduce_into_slot(kernel(launch), launch.element, args, stores);
  }
  args.destination = range.stored;
  args.stream = launch.stream_stores && step.dst_buffer == BufferId::kOutput;
  kernel(launch)(args);
}

[[gnu::always_inline]] inline void StepWork::run_range(const Launch& launch, LaneState& lane, const Step& step,
                                                       const StepRange& range, SlotStores& stores) {
  if (step.has(kReduce)) return reduce(launch, lane, step, range, stores);
  const Bytes bytes{range.count.value * launch.element.value};
  const std::byte* const value = range.arrived != nullptr ? range.arrived : range.own;
  if (launch.alone_reduces && range.stored != nullptr) [[unlikely]] {
    const void* const only = value;
    ReduceArgs args;
    args.sources = &only;
    args.source_count = 1;
    args.destination = range.stored;
    args.count = range.count.value;
    return kernel(launch)(args);
  }
  std::byte* const stored = range.stored == value ? nullptr : range.stored;  // in place
  const bool stream = launch.stream_stores;
  if (range.slot != nullptr) return copy_into_slot(range.slot, stored, value, bytes, stream, stores);
  if (stored != nullptr) copy_bytes(stored, value, bytes, stream);
}

}  // namespace tutti
