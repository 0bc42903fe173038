// Computes what the steps of a program have to do, ahead of the threads that do it. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/chunk_runs.h"
#include "executor/device/block_memory.h"
#include "executor/device/device_call.h"
#include "schedule/peer_list.h"

namespace tutti {

/// Plans for one block. While a block runs one plan, a few of its threads prepare the next, each its messages' part of
/// it. Positions of what is sent are taken here.
class StepPlanner {
 public:
  TUTTI_HD StepPlanner(const DeviceCall& call, BlockMemory& memory, std::uint32_t block)
      : call_(call),
        memory_(memory),
        block_(block),
        program_((call.table != nullptr ? call.table : call.steps) + block % call.lanes * call.steps_per_lane) {}

  /// Binds the call to the block and stands before its first step. One thread calls it before all else.
  TUTTI_HD void begin() {
    Binding& binding = memory_.binding;
    binding = call_.binding;
    binding.scratch += call_.scratch_stride * block_;
    if (binding.is_ragged) {
      const BlockTable input{call_.blocks[0], call_.blocks[1], call_.input_blocks};
      const BlockTable output{call_.blocks[2], call_.blocks[3], call_.output_blocks};
      binding.ragged = RaggedTiling(input, output, call_.tile);
    }
    memory_.tiles = call_.steps_per_lane == 0 ? 0 : binding.tiles();
    memory_.pairs = pairs_of(largest_in_cell());
    StepPlan& none = memory_.plans[0];
    none.tile = block_ / call_.lanes;
    none.step = none.steps = none.chunk = none.chunks = 0;
    none.more = false;
  }

  /// Prepares the part of number k, below kMaxDeviceRanks, of the plan that follows `before`.
  TUTTI_HD void prepare(const StepPlan& before, StepPlan* plan, std::int32_t k) {
    Cursor at = after(before);
    if (at.tile >= memory_.tiles) {
      if (k == 0) plan->steps = 0;
      return;
    }
    const Step& first = program_[at.step];
    const auto steps = 1 + first.together;
    const PeerList set = senders_of(Shape{call_.ranks, call_.links.rank}, first);
    if (k >= steps && k >= set.count) return;
    if (k == 0) head(first, at, set, plan);
    part(k < steps ? program_[at.step + static_cast<std::uint32_t>(k)] : first, at, k, set, before, plan);
  }

 private:
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
    const Binding& binding = memory_.binding;
    const Step& step = program_[at.step];
    return binding.is_ragged && step.together == 0 &&
           !binding.ragged.has_tile(binding.ragged.block_count(step), at.tile);
  }
  TUTTI_HD std::size_t message_bytes(const StepPlan& plan) const {
    return plan.args.count * memory_.binding.wire_element.value;
  }

  /// What the steps have in common.
  TUTTI_HD void head(const Step& step, const Cursor& at, const PeerList& set, StepPlan* plan) const {
    const std::uint32_t steps = 1 + std::uint32_t{step.together};
    plan->tile = at.tile;
    plan->step = at.step;
    plan->steps = steps;
    plan->chunk = at.chunk;
    plan->at = at.at;
    const auto each = static_cast<std::int32_t>(steps);
    plan->messages = !step.has(kRecv) ? 0 : step.recv_from == PeerSet::kOne ? each : set.count;
    plan->sends = step.has(kSend) ? each : 0;
    plan->place = step.is(kOwnLeft) ? 1 : 0;
    plan->from_all = step.is(kMulticastRecv);
    plan->more = false;
    plan->reduces = false;
    plan->args.destinations = plan->destinations;
    plan->args.destination_count = 0;
    plan->args.divisor = step.is(kComplete) ? call_.divisor : 1;
    plan->args.tree = call_.tree_order;
    plan->pairs = memory_.pairs;  // of steps that run together
  }
  TUTTI_HD std::size_t largest_in_cell() const {
    const Binding& binding = memory_.binding;
    const std::size_t cell = call_.links.geometry.cell_bytes;
    if (binding.is_ragged) return cell;
    return smaller_of(cell, binding.tiling.max_chunk().value * binding.wire_element.value);
  }
  TUTTI_HD static std::uint32_t pairs_of(std::size_t bytes) { return static_cast<std::uint32_t>(1 + div_up(bytes, 8)); }

  /// What one of the steps has for itself.
  TUTTI_HD void part(const Step& step, const Cursor& at, std::int32_t k, const PeerList& set, const StepPlan& before,
                     StepPlan* plan) {
    const Binding& binding = memory_.binding;
    const Binding::Share share = binding.share(step, at.tile, call_.fingerprint);
    const std::size_t bytes = share.count.value * binding.wire_element.value;
    const bool small = bytes <= call_.links.geometry.cell_bytes;
    plan->bytes[k] = static_cast<std::uint32_t>(bytes);
    plan->fingerprints[k] = share.fingerprint;
    if (step.has(kRecv)) {
      const bool one = step.recv_from == PeerSet::kOne;
      expect(!one ? set[k] : share.exists ? step.recv_peer : call_.links.rank, step, small, k, before, plan);
    }
    if (set.count != 0 && k != 0) return;  // a step of its own, of which the message alone is another
    const bool one_range = binding.is_one_range(step);
    const std::uint32_t end = one_range ? 1 : step.span.count;
    const ChunkRun run = run_from(binding, step, at.chunk, end, at.tile);
    const Elems count = one_range ? share.count : run.count;
    plan->readers[k] = -1;
    std::byte* const message = share.exists ? take_message(step, small, k, before, plan) : nullptr;
    plan->lent[k] = one_range && !small ? lent(step, run.first) : 0;
    std::byte* const sent = plan->lent[k] == 0 ? message : nullptr;
    if (step.together != 0 || k != 0) {
      if (step.has(kSend)) plan->sources[k] = run.first.source;
      plan->destinations[k] = bytes == 0 || !share.exists ? nullptr : step.has(kSend) ? sent : run.first.destination;
      return;
    }
    plan->pairs = small ? pairs_of(bytes) : 0;
    plan->chunks = run.chunks;
    plan->more = at.chunk + run.chunks < end && bytes != 0;
    plan->args.count = count.value;
    if (count.value != 0) work(step, sent == nullptr ? nullptr : sent + at.at, run.first, set, plan);
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
  TUTTI_HD void work(const Step& step, std::byte* message, const ChunkPlace& own, const PeerList& peers,
                     StepPlan* plan) const {
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
  TUTTI_HD std::uint64_t lent(const Step& step, const ChunkPlace& place) const {
    if (!call_.lends || !step.has(kSend)) return 0;
    const BufferId buffer = step.has(kStore) ? step.dst_buffer : step.has(kRecv) ? BufferId::kNone : step.src_buffer;
    if (buffer == BufferId::kScratch || buffer == BufferId::kNone) return 0;
    return call_.place_of(step.has(kStore) ? place.destination : place.source);
  }

  const DeviceCall& call_;
  BlockMemory& memory_;
  const std::uint32_t block_;
  const Step* const program_;
};

}  // namespace tutti
