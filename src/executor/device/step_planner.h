// Computes what the steps of a program have to do, ahead of the threads that do it. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/chunk_runs.h"
#include "executor/device/block_memory.h"
#include "executor/device/device_call.h"

namespace tutti {

/// Plans for one block. While a block runs one plan, a few of its threads prepare the next, each its messages' part of
/// a half of it. Positions of messages are taken here.
class StepPlanner {
 public:
  TUTTI_HD StepPlanner(const DeviceCall& call, BlockMemory& memory, std::uint32_t block)
      : call_(call), memory_(memory), block_(block), lane_at_(block % call.lanes * call.steps_per_lane) {}

  /// Binds the call to the block and stands before its first step. One thread calls it before all else.
  TUTTI_HD void begin() {
    Binding& binding = memory_.binding;
    copy_at_once(&binding, call_.binding);
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

  /// The halves of a plan, which threads may prepare at the same time. The received half has what is known of messages
  /// that come (peers, from, place, from_all, their sources), the sizes and fingerprints of all messages, how many
  /// there are, and where the plan stands (tile, step, steps, chunk, at). The sent half has all else. Neither reads
  /// what the other one writes.
  enum class Half : std::uint8_t { kReceived, kSent };

  /// Prepares a half's part of number k, below kMaxDeviceRanks, of the plan that follows `before`.
  TUTTI_HD void prepare(const StepPlan& before, StepPlan* plan, Half half, std::int32_t k) {
    const Cursor at = after(before);
    if (at.tile >= memory_.tiles) {
      if (k == 0 && half == Half::kReceived) plan->steps = 0;
      return;
    }
    const StepShape& first = shape_of(at.step, half, k);
    const auto steps = 1 + first.step.together;
    if (k >= steps && k >= first.senders.count) return;
    const bool has_own = k != 0 && k < steps;
    const StepShape& shape = has_own ? shape_of(at.step + static_cast<std::uint32_t>(k), half, k) : first;
    const Piece piece = piece_of(shape, at);
    if (half == Half::kReceived) {
      if (k == 0) head(first, at, plan);
      receive(shape, piece, k, before, plan);
    } else if (k == 0 || shape.senders.count == 0) {  // else k is a message of a step whose work is that of number 0
      send(shape, piece, at, k, before, plan);
    }
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

  TUTTI_HD const StepShape& shape_of(std::uint32_t step, Half half, std::int32_t k) const {
    std::uint32_t place = step;
    if (step >= kShapes) {
      place = kShapes + static_cast<std::uint32_t>(half) * kMaxDeviceRanks + static_cast<std::uint32_t>(k);
      copy_words(0, 1, &memory_.shapes[place], found_shapes() + step);
    }
    return memory_.shapes[place];
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

  /// A step's piece of work in a tile.
  struct Piece {
    Step step;    // copied, because no store can change the copy
    bool exists;  // its block has such a tile
    StepShape::Chunks run;
    std::uint32_t bytes;  // of its message
    bool small;           // the message goes into a cell
  };
  TUTTI_HD Piece piece_of(const StepShape& shape, const Cursor& at) const {
    const Step step = shape.step;
    const bool exists = !is_ragged() || call_.ragged().has_tile(shape.block, at.tile);
    const StepShape::Chunks run = chunks_at(shape, step, at, exists);
    const std::size_t elements = shape.end == 1 ? run.count : call_.binding.elements(step, at.tile).value;
    const std::size_t bytes = elements * call_.binding.wire_element.value;
    return Piece{step, exists, run, static_cast<std::uint32_t>(bytes), bytes <= call_.links.geometry.cell_bytes};
  }
  TUTTI_HD static std::int32_t messages_of(const StepShape& shape) {
    const Step& step = shape.step;
    if (!step.has(kRecv)) return 0;
    return step.recv_from == PeerSet::kOne ? 1 + std::int32_t{step.together} : shape.senders.count;
  }
  /// The operand that the first message of a step becomes.
  TUTTI_HD static std::int32_t place_of_messages(const Step& step) { return step.is(kOwnLeft) ? 1 : 0; }

  /// What the steps have in common.
  TUTTI_HD void head(const StepShape& shape, const Cursor& at, StepPlan* plan) const {
    const Step step = shape.step;
    plan->tile = at.tile;
    plan->step = at.step;
    plan->steps = 1 + std::uint32_t{step.together};
    plan->chunk = at.chunk;
    plan->at = at.at;
    plan->messages = messages_of(shape);
    plan->sends = step.has(kSend) ? 1 + std::int32_t{step.together} : 0;
    plan->place = place_of_messages(step);
    plan->from_all = step.is(kMulticastRecv);
  }

  /// The received half's part of one step, or of one message of a step.
  TUTTI_HD void receive(const StepShape& shape, const Piece& piece, std::int32_t k, const StepPlan& before,
                        StepPlan* plan) {
    plan->bytes[k] = piece.bytes;
    plan->fingerprints[k] =
        is_ragged() && piece.exists ? fingerprint_of_block(call_.fingerprint, shape.block) : call_.fingerprint;
    const Step& step = piece.step;
    if (!step.has(kRecv)) return;
    const bool one = step.recv_from == PeerSet::kOne;
    const std::int32_t peer = !one ? shape.senders[k] : piece.exists ? step.recv_peer : call_.links.rank;
    expect(peer, step, piece.small, k, before, plan);
  }

  /// The sent half's part of one step.
  TUTTI_HD void send(const StepShape& shape, const Piece& piece, const Cursor& at, std::int32_t k,
                     const StepPlan& before, StepPlan* plan) {
    const Step& step = piece.step;
    const StepShape::Chunks& run = piece.run;
    plan->readers[k] = -1;
    std::byte* const message = piece.exists ? take_message(step, piece.small, k, before, plan) : nullptr;
    const std::uint64_t lent_at = shape.end == 1 && !piece.small ? lent(step, run) : 0;
    plan->lent[k] = lent_at;
    // Whole words that are only sent go into their cell from where they lie.
    const bool direct = piece.small && step.verbs == kSend && shape.end == 1 &&
                        (reinterpret_cast<std::uintptr_t>(run.source) | piece.bytes) % sizeof(std::uint64_t) == 0;
    plan->data[k] = direct ? run.source : message;
    std::byte* const sent = lent_at != 0 || direct ? nullptr : message;
    if (k == 0) plan->more = step.together == 0 && at.chunk + run.together < shape.end && piece.bytes != 0;
    if (step.together != 0 || k != 0) {
      if (step.has(kSend)) plan->sources[k] = run.source;
      plan->destinations[k] = piece.bytes == 0 || !piece.exists ? nullptr : step.has(kSend) ? sent : run.destination;
      return;
    }
    plan->chunks = run.together;
    work(shape, piece, sent == nullptr ? nullptr : sent + at.at, plan);
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
    plan->from[k] = place(route, position, LinkSide::kReader, small);
    const std::int32_t operand = place_of_messages(step) + k;
    // Small messages land in device memory, because reductions take operands only from there.
    plan->sources[operand] = small ? links.landing(memory_.sections, k) : links.slot(route, memory_.sections, position);
  }
  TUTTI_HD MessagePlace place(DeviceRoute route, std::uint64_t position, LinkSide side, bool small) const {
    const DeviceLinks& links = call_.links;
    if (small) return MessagePlace{position, links.cell(route, memory_.sections, position, side), nullptr, nullptr};
    return MessagePlace{position, nullptr, links.head(route, memory_.sections, side),
                        links.mark(route, memory_.sections, position, side)};
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
    plan->to[k] = place(route, position, LinkSide::kWriter, small);
    return small ? links.outgoing(memory_.sections, k) : links.slot(route, memory_.sections, position);
  }

  /// Says what all threads do with the elements of a step that runs alone.
  TUTTI_HD void work(const StepShape& shape, const Piece& piece, std::byte* message, StepPlan* plan) const {
    const Step& step = piece.step;
    const StepShape::Chunks& own = piece.run;
    device::ReduceArgs& args = plan->args;
    args.count = own.count;
    args.destinations = plan->destinations;
    args.divisor = step.is(kComplete) ? call_.divisor : 1;
    args.tree = call_.tree_order;
    const bool set = step.recv_from >= PeerSet::kAll;
    const bool one = step.recv_from == PeerSet::kOne;
    const std::int32_t messages = shape.senders.count, first = place_of_messages(step);  // of a set
    const bool joins = step.has(kReduce) && !(set && messages <= 1);
    const std::int32_t place = !joins ? kMaxDeviceRanks : set ? shape.senders.own : 1 - first;
    plan->sources[place] = own.source;
    args.sources = plan->sources + (joins ? 0 : one ? first : place);
    args.source_count = !joins ? 1 : set ? messages : 2;
    plan->reduces = joins || call_.alone_reduces;
    const bool in_place = !plan->reduces && !one && own.destination == own.source;
    std::int32_t destinations = 0;
    if (message != nullptr) plan->destinations[destinations++] = message;
    if (step.has(kStore) && !in_place) plan->destinations[destinations++] = own.destination;
    args.destination_count = own.count != 0 ? destinations : 0;
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
