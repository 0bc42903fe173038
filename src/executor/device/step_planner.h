// Computes what the steps of a program have to do, ahead of the threads that do it. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/chunk_runs.h"
#include "executor/device/block_memory.h"
#include "executor/device/device_call.h"

namespace tutti {

/// Plans for one block. While a block runs one plan, a few of its threads prepare the next, each its messages' part of
/// it. Positions of what is sent are taken here.
class StepPlanner {
 public:
  TUTTI_HD StepPlanner(const DeviceCall& call, BlockMemory& memory, std::uint32_t block)
      : call_(call), memory_(memory), block_(block), lane_at_(block % call.lanes * call.steps_per_lane) {}

  /// Binds the call to the block and stands before its first step. One thread calls it before all else.
  TUTTI_HD void begin() {
    Binding& binding = memory_.binding;
    binding = call_.binding;
    binding.scratch += block_scratch();
    if (binding.is_ragged) binding.ragged = call_.ragged();
    memory_.tiles = call_.steps_per_lane == 0 ? 0 : binding.tiles();
    begin_before(&memory_.plans[0]);
  }

  /// Whether the host has found the shapes. Else they are found after begin().
  TUTTI_HD bool has_shapes() const { return call_.table == nullptr; }
  /// A thread's part of it.
  TUTTI_HD void fetch_shapes(std::uint32_t thread, std::uint32_t threads) {
    if (!has_shapes()) {
      for (std::uint32_t i = thread; i < call_.steps_per_lane; i += threads) find_shape(i);
      return;
    }
    static_assert(kInlineSteps <= kShapes);
    copy_words(thread, threads, memory_.shapes, call_.shapes + lane_at_, call_.steps_per_lane);
  }

  /// Prepares the part of number k, below kMaxDeviceRanks, of the plan that follows `before`.
  TUTTI_HD void prepare(const StepPlan& before, StepPlan* plan, std::int32_t k) {
    const Cursor at = after(before);
    if (at.tile >= memory_.tiles) {
      if (k == 0) plan->steps = 0;
      return;
    }
    const StepShape& first = shape_of(at.step, k);
    const auto steps = 1 + first.step.together;
    if (k >= steps && k >= first.senders.count) return;
    if (k == 0) head(first, at, plan);
    const bool has_own = k != 0 && k < steps;
    part(has_own ? shape_of(at.step + static_cast<std::uint32_t>(k), k) : first, at, k, before, plan);
  }

 private:
  /// The plan of a step before the first one, which does nothing.
  TUTTI_HD void begin_before(StepPlan* plan) const {
    plan->tile = block_ / call_.lanes;
    plan->step = ~std::uint32_t{0};
    plan->steps = 1;
    plan->chunk = 0;
    plan->more = false;
  }

  TUTTI_HD const StepShape& shape_of(std::uint32_t step, std::int32_t k) const {
    if (step < kShapes) return memory_.shapes[step];
    copy_words(0, 1, &memory_.late_shapes[k], found_shapes() + step);
    return memory_.late_shapes[k];
  }
  TUTTI_HD void find_shape(std::uint32_t step) const {
    StepShape& shape = step < kShapes ? memory_.shapes[step] : found_shapes()[step];
    shape.step = call_.table[lane_at_ + step];
    shape.find(memory_.binding, memory_.tiles, call_.ranks, call_.links.rank);
  }
  /// The block's part of the memory for the shapes of long programs.
  TUTTI_HD StepShape* found_shapes() const { return call_.found_shapes + block_ * call_.steps_per_lane; }
  TUTTI_HD std::size_t block_scratch() const { return call_.scratch_stride * block_; }

  struct Cursor {
    std::size_t tile;
    std::uint32_t step;
    std::uint32_t chunk;
    std::size_t at;
  };

  TUTTI_HD Cursor after(const StepPlan& before) const {
    if (before.more)
      return Cursor{before.tile, before.step, before.chunk + before.chunks, before.at + message_bytes(before)};
    Cursor next{before.tile, before.step + before.steps, 0, 0};
    while (true) {
      if (next.step >= call_.steps_per_lane) {
        next.step = 0;
        next.tile += call_.stripes;
      }
      if (next.tile >= memory_.tiles || !is_skipped(next)) return next;
      ++next.step;
    }
  }
  /// Whether the block of a step that runs alone has no such tile.
  TUTTI_HD bool is_skipped(const Cursor& at) const {
    if (!is_ragged()) return false;
    const StepShape& shape = at.step < kShapes ? memory_.shapes[at.step] : found_shapes()[at.step];
    return shape.step.together == 0 && !call_.ragged().has_tile(shape.block, at.tile);
  }
  TUTTI_HD std::size_t message_bytes(const StepPlan& plan) const {
    return plan.args.count * call_.binding.wire_element.value;
  }

  /// What the steps have in common.
  TUTTI_HD void head(const StepShape& shape, const Cursor& at, StepPlan* plan) const {
    const Step step = shape.step;
    const std::uint32_t steps = 1 + std::uint32_t{step.together};
    plan->tile = at.tile;
    plan->step = at.step;
    plan->steps = steps;
    plan->chunk = at.chunk;
    plan->at = at.at;
    const auto each = static_cast<std::int32_t>(steps);
    plan->messages = !step.has(kRecv) ? 0 : step.recv_from == PeerSet::kOne ? each : shape.senders.count;
    plan->sends = step.has(kSend) ? each : 0;
    plan->place = step.is(kOwnLeft) ? 1 : 0;
    plan->from_all = step.is(kMulticastRecv);
    plan->more = false;
    plan->reduces = false;
    plan->args.destinations = plan->destinations;
    plan->args.destination_count = 0;
    plan->args.divisor = step.is(kComplete) ? call_.divisor : 1;
    plan->args.tree = call_.tree_order;
  }

  /// What one of the steps has for itself.
  TUTTI_HD void part(const StepShape& shape, const Cursor& at, std::int32_t k, const StepPlan& before, StepPlan* plan) {
    const Step step = shape.step;  // copied, because no store can change the copy
    const std::uint32_t end = shape.end;
    const bool exists = !is_ragged() || call_.ragged().has_tile(shape.block, at.tile);
    const StepShape::Chunks run = chunks_at(shape, step, at, exists);
    const std::size_t elements = end == 1 ? run.count : call_.binding.elements(step, at.tile).value;
    const std::size_t bytes = elements * call_.binding.wire_element.value;
    const bool small = bytes <= call_.links.geometry.cell_bytes;
    plan->bytes[k] = static_cast<std::uint32_t>(bytes);
    plan->fingerprints[k] =
        is_ragged() && exists ? fingerprint_of_block(call_.fingerprint, shape.block) : call_.fingerprint;
    if (step.has(kRecv)) {
      const bool one = step.recv_from == PeerSet::kOne;
      const std::int32_t peer = !one ? shape.senders[k] : exists ? step.recv_peer : call_.links.rank;
      expect(peer, step, small, k, before, plan);
    }
    if (k != 0 && shape.senders.count != 0) return;  // a step of its own, of which the message alone is another
    plan->readers[k] = -1;
    std::byte* const message = exists ? take_message(step, small, k, before, plan) : nullptr;
    const std::uint64_t lent_at = end == 1 && !small ? lent(step, run) : 0;
    plan->lent[k] = lent_at;
    // Whole words that are only sent go into their cell from where they lie.
    const bool direct = small && step.verbs == kSend && end == 1 &&
                        (reinterpret_cast<std::uintptr_t>(run.source) | bytes) % sizeof(std::uint64_t) == 0;
    plan->data[k] = direct ? run.source : message;
    std::byte* const sent = lent_at != 0 || direct ? nullptr : message;
    if (step.together != 0 || k != 0) {
      if (step.has(kSend)) plan->sources[k] = run.source;
      plan->destinations[k] = bytes == 0 || !exists ? nullptr : step.has(kSend) ? sent : run.destination;
      return;
    }
    plan->chunks = run.together;
    plan->more = at.chunk + run.together < end && bytes != 0;
    plan->args.count = run.count;
    if (run.count != 0) work(step, sent == nullptr ? nullptr : sent + at.at, run, shape.senders, plan);
  }
  TUTTI_HD bool is_ragged() const { return call_.binding.is_ragged; }

  /// The chunks that lie together from where the program is.
  TUTTI_HD StepShape::Chunks chunks_at(const StepShape& shape, const Step& step, const Cursor& at, bool exists) const {
    if (at.chunk != 0) {
      const ChunkRun run = run_from(memory_.binding, shape.step, at.chunk, shape.end, at.tile);
      return {run.first.source, run.first.destination, run.count.value, run.chunks};
    }
    const bool last = !is_ragged() && at.tile + 1 == memory_.tiles;
    StepShape::Chunks chunks = last ? shape.last : shape.first;
    const std::size_t distance = last ? 0 : at.tile * call_.tile.value * call_.binding.element.value;
    chunks.source += distance_in(step.src_buffer, distance);
    chunks.destination += distance_in(step.dst_buffer, distance);
    if (is_ragged()) chunks.count = exists ? call_.ragged().tile_count(shape.block, at.tile).value : 0;
    return chunks;
  }
  /// From where a shape says that chunks of a buffer lie to where they are, so many bytes of a block further on.
  TUTTI_HD std::size_t distance_in(BufferId buffer, std::size_t bytes) const {
    if (buffer == BufferId::kScratch) return has_shapes() ? block_scratch() : 0;
    return buffer == BufferId::kNone ? 0 : bytes;
  }

  /// Takes the next place on the link from a peer, or keeps it in a later part of a step.
  TUTTI_HD void expect(std::int32_t peer, const Step& step, bool small, std::int32_t k, const StepPlan& before,
                       StepPlan* plan) {
    const DeviceLinks& links = call_.links;
    plan->peers[k] = peer;
    if (before.more) plan->from[k] = before.from[k];
    if (peer == links.rank || before.more) return;
    const bool all = step.is(kMulticastRecv);
    LinkEnd& end = all ? memory_.links.multicast[peer] : memory_.links.received[peer];
    const std::uint64_t position = end.ring(small)++;
    const DeviceRoute route = DeviceRoute::of(peer, links.rank, all);
    plan->from[k] = place(route, position, LinkSide::kReader);
    const std::int32_t operand = (step.is(kOwnLeft) ? 1 : 0) + k;
    // Small messages land in device memory, because reductions take operands only from there.
    plan->sources[operand] = small ? links.landing(memory_.sections, k) : links.slot(route, memory_.sections, position);
  }
  TUTTI_HD MessagePlace place(DeviceRoute route, std::uint64_t position, LinkSide side) const {
    const DeviceLinks& links = call_.links;
    return MessagePlace{position, links.cell(route, memory_.sections, position, side),
                        links.head(route, memory_.sections, side), links.mark(route, memory_.sections, position, side)};
  }

  /// Takes the next place on the link to the reader. Returns where the message is to be written; nullptr if none is
  /// sent.
  TUTTI_HD std::byte* take_message(const Step& step, bool small, std::int32_t k, const StepPlan& before,
                                   StepPlan* plan) {
    const DeviceLinks& links = call_.links;
    const bool to_all = step.send_to == PeerSet::kAll;
    const std::int32_t reader = to_all ? links.rank : step.send_peer;
    if (!step.has(kSend) || (to_all && call_.ranks == 1)) return nullptr;
    plan->readers[k] = reader;
    std::uint64_t& next = memory_.links.sent[reader].ring(small);
    const std::uint64_t position = before.more ? before.to[k].position : next++;
    const DeviceRoute route = DeviceRoute::of(links.rank, reader, to_all);
    plan->to[k] = place(route, position, LinkSide::kWriter);
    return small ? links.outgoing(memory_.sections, k) : links.slot(route, memory_.sections, position);
  }

  /// Says what all threads do with the elements of a step that runs alone.
  TUTTI_HD void work(const Step& step, std::byte* message, const StepShape::Chunks& own,
                     const StepShape::Senders& peers, StepPlan* plan) const {
    device::ReduceArgs& args = plan->args;
    const bool set = step.recv_from >= PeerSet::kAll;
    const bool one = step.recv_from == PeerSet::kOne;
    const bool joins = step.has(kReduce) && !(set && plan->messages <= 1);
    if (message != nullptr) plan->destinations[args.destination_count++] = message;
    if (step.has(kStore)) plan->destinations[args.destination_count++] = own.destination;
    const std::int32_t place = !joins ? kMaxDeviceRanks : set ? peers.own : 1 - plan->place;
    plan->sources[place] = own.source;
    args.sources = plan->sources + (joins ? 0 : one ? plan->place : place);
    args.source_count = !joins ? 1 : set ? plan->messages : 2;
    plan->reduces = joins || call_.alone_reduces;
    const bool in_place = !plan->reduces && !one && step.has(kStore) && own.destination == own.source;
    if (in_place) --args.destination_count;
  }

  /// Returns the LentPlace of a large message, if it can stay in the caller's buffers to be read there, which is where
  /// its value is taken from or stored; else 0.
  TUTTI_HD std::uint64_t lent(const Step& step, const StepShape::Chunks& place) const {
    if (!call_.lends || !step.has(kSend)) return 0;
    const BufferId buffer = step.has(kStore) ? step.dst_buffer : step.has(kRecv) ? BufferId::kNone : step.src_buffer;
    if (buffer == BufferId::kScratch || buffer == BufferId::kNone) return 0;
    return call_.place_of(step.has(kStore) ? place.destination : place.source);
  }

  const DeviceCall& call_;
  BlockMemory& memory_;
  const std::uint32_t block_;
  const std::uint32_t lane_at_;  // where the block's program begins
};

}  // namespace tutti
