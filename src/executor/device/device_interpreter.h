// The interpreter of schedules that runs inside a kernel, where each thread block runs one lane, and on the host, where
// the threads of a block are threads. docs/design/schedule.md says what a step means. The binding knows where chunks
// lie, and the port moves messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/device/device_call.h"
#include "executor/device/device_port.h"
#include "executor/device/step_planner.h"
#include "kernels/device/device_reduction.h"
#include "kernels/device/thread_team.h"

namespace tutti {

/// The reduction of one pair of type and operation of list_reductions().
template <class Format, class Op, device::Trees kTrees = device::Trees::kIfAsked>
struct DeviceKernel {
  /// Reduces `args.count` elements of `element` bytes. If the pair works on bytes, it gets their number.
  TUTTI_HD void reduce(unsigned thread, unsigned threads, device::ReduceArgs args, Bytes element) const {
    args.count = args.count * element.value / sizeof(typename Format::Storage);
    device::reduce<Format, Op, kTrees>(thread, threads, args);
  }
};

/// A thread's part of a copy.
TUTTI_HD TUTTI_APART inline void copy_apart(unsigned thread, unsigned threads, const void* source,
                                            void* const* destinations, int count, Bytes bytes) {
  device::copy(thread, threads, source, destinations, count, bytes);
}

/// `Block` stands for the threads that run a lane. It has index(), thread(), threads(), sync(), and any(bool), which is
/// a sync() that returns whether any thread passed true. `Kernel` is a DeviceKernel, or has such a function.
template <class Block, class Kernel>
class DeviceInterpreter {
 public:
  /// Every thread of the block makes one.
  TUTTI_HD DeviceInterpreter(const DeviceCall& call, Block& block, BlockMemory& memory, const Kernel& kernel)
      : call_(call),
        block_(block),
        kernel_(kernel),
        memory_(memory),
        planner_(call, memory, block.index()),
        port_(call, block, memory) {
    // The first threads fetch positions meanwhile. A barrier comes before anybody reads what it writes.
    if (block.thread() + 1 == block.threads()) planner_.begin();
  }

  /// Runs the block's part of the call to its end, or until a wait gives up.
  TUTTI_HD void run() {
    run_lane();
    port_.say_end(call_.number);
  }

 private:
  /// Threads that a device runs as one.
  static constexpr std::uint32_t kGroup = 32;

  TUTTI_HD void run_lane() {
    if (!planner_.has_shapes()) block_.sync();  // after begin()
    fetch_shapes();
    if (!port_.open()) return;
    std::uint32_t done = 0, planned = 0;  // the newest plan that has run, and the newest that has been prepared
    while (true) {
      const std::uint32_t next = after(done);
      if (planned != done && memory_.plans[next].steps == 0) return port_.close(call_.lends);
      if (planned == done || (planned == next && !sends_first(memory_.plans[next]))) {
        const std::uint32_t before = planned;
        planned = after(planned);
        prepare(memory_.plans[before], &memory_.plans[planned]);
        if (before == done) {
          block_.sync();
          continue;
        }
      }
      if (!run_plan(memory_.plans[next], &memory_.plans[after(next)])) return;
      done = next;
    }
  }
  /// Mostly the plan after this one is prepared before this one runs, while threads wait and memory is slow. But a plan
  /// that waits for nothing and sends small messages runs first, and the next one is prepared while they are on their
  /// way.
  TUTTI_HD bool sends_first(const StepPlan& plan) const {
    const bool only_sends = plan.messages == 0 && plan.sends != 0;
    return only_sends && !plan.more && plan.bytes[0] <= call_.links.geometry.cell_bytes;
  }
  /// On a device by those threads that have nothing to fetch in open().
  TUTTI_HD void fetch_shapes() {
    constexpr std::uint32_t kFetch = sizeof(LinkTable) / sizeof(std::uint64_t);
    const bool apart = block_.threads() > kFetch;
    const std::uint32_t others = apart ? kFetch : 0;
    if (block_.thread() >= others) planner_.fetch_shapes(block_.thread() - others, block_.threads() - others);
  }
  TUTTI_HD static std::uint32_t after(std::uint32_t turn) { return turn == 2 ? 0 : turn + 1; }

  // Before the first barrier each thread waits for its own peers. Between the two barriers every thread works on the
  // elements. After the second, what was read is released and what was written is published. A step whose chunks lie
  // apart has several plans: it waits with the first, and ends with the last. `next` is prepared if it is one of them.
  TUTTI_HD bool run_plan(StepPlan& plan, StepPlan* next) {
    const bool arrived = plan.chunk != 0 || port_.await(plan);
    if (block_.any(!arrived)) return false;
    if (plan.more && block_.thread() == 0) pass_on(plan, next);
    compute(plan);
    if (plan.more || (plan.messages == 0 && plan.sends == 0)) return true;
    block_.sync();
    port_.finish(plan);
    return true;
  }

  /// On a device the second group of threads prepares one half and the third group the other one, at the same time. The
  /// first threads may wait for slots meanwhile, and the last ones for credits.
  TUTTI_HD void prepare(const StepPlan& plan, StepPlan* next) {
    using Half = StepPlanner::Half;
    if (block_.threads() >= (1 + kPlanHalves) * kGroup) {
      const std::uint32_t half = block_.thread() / kGroup - 1, k = block_.thread() % kGroup;
      if (half < kPlanHalves && k < kMaxDeviceRanks)
        planner_.prepare(plan, next, half == 0 ? Half::kReceived : Half::kSent, static_cast<std::int32_t>(k));
      return;
    }
    for (std::uint32_t k = block_.thread(); k < kMaxDeviceRanks; k += block_.threads())
      for (const Half half : {Half::kReceived, Half::kSent})
        planner_.prepare(plan, next, half, static_cast<std::int32_t>(k));
  }

  /// The next part of a step takes the next part of the message.
  TUTTI_HD void pass_on(const StepPlan& plan, StepPlan* next) const {
    const std::size_t bytes = plan.args.count * call_.binding.wire_element.value;
    next->is_lent[0] = plan.is_lent[0];
    next->sources[plan.place] = static_cast<const std::byte*>(plan.sources[plan.place]) + bytes;
  }

  TUTTI_HD void compute(const StepPlan& plan) {
    const Bytes element = call_.binding.element;
    if (plan.steps != 1) return copy_all(plan);
    const device::ReduceArgs& args = plan.args;
    if (args.destination_count == 0) return;
    if (plan.reduces) return kernel_.reduce(block_.thread(), block_.threads(), args, element);
    copy_apart(block_.thread(), block_.threads(), args.sources[0], plan.destinations, args.destination_count,
               Bytes{args.count * element.value});
  }

  /// Each of the copies of steps that run together has a team of threads.
  TUTTI_HD void copy_all(const StepPlan& plan) {
    const ThreadTeam team = ThreadTeam::of(block_.thread(), block_.threads(), plan.steps);
    for (std::uint32_t k = team.index; k < plan.steps; k += team.teams) {
      if (plan.destinations[k] == nullptr) continue;
      copy_apart(team.thread, team.threads, plan.sources[k], plan.destinations + k, 1, Bytes{plan.bytes[k]});
    }
  }

  const DeviceCall& call_;
  Block& block_;
  const Kernel& kernel_;
  BlockMemory& memory_;
  StepPlanner planner_;
  DevicePort<Block> port_;
};

}  // namespace tutti
