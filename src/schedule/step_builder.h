// Builds a step verb by verb, in the order in which it happens: recv, reduce, store, send. constexpr, host and device.
#pragma once

#include "schedule/step.h"

namespace tutti {

/// StepBuilder(lane, chunk).recv(left).reduce(BufferId::kInput, chunk, false).send(right).step()
class StepBuilder {
 public:
  /// `chunk` is the chunk of the result that the step is about.
  TUTTI_HD constexpr StepBuilder(std::uint32_t lane, std::uint32_t chunk) {
    step_.lane = static_cast<std::uint8_t>(lane);
    step_.chunk = chunk;
  }

  /// Receives what `peer` sent to this rank.
  TUTTI_HD constexpr StepBuilder& recv(std::int32_t peer) {
    step_.verbs |= kRecv;
    step_.recv_from = PeerSet::kOne;
    step_.recv_peer = peer;
    return *this;
  }
  /// Receives what `peer` sent to all.
  TUTTI_HD constexpr StepBuilder& recv_multicast(std::int32_t peer) {
    step_.flags |= kMulticastRecv;
    return recv(peer);
  }
  /// Receives one message of every other rank of the set, each sent to this rank alone.
  TUTTI_HD constexpr StepBuilder& recv_each(PeerSet set = PeerSet::kAll) {
    step_.verbs |= kRecv;
    step_.recv_from = set;
    return *this;
  }
  /// Receives one message of every other rank of the group, each sent to this rank alone.
  TUTTI_HD constexpr StepBuilder& recv_each(const HostGroup& group) {
    step_.recv_peer = group.as_peer();
    return recv_each(PeerSet::kGroup);
  }
  /// Receives one message of every other rank, each sent to all.
  TUTTI_HD constexpr StepBuilder& recv_each_multicast() {
    step_.flags |= kMulticastRecv;
    return recv_each();
  }

  /// The own chunk that is stored or sent, where nothing is received.
  TUTTI_HD constexpr StepBuilder& take(BufferId buffer, std::uint32_t chunk) {
    step_.src_buffer = buffer;
    step_.src_chunk = chunk;
    return *this;
  }
  /// Reduces what was received with an own chunk. `own_left` is meant for one peer; with a set, its order decides.
  TUTTI_HD constexpr StepBuilder& reduce(BufferId buffer, std::uint32_t chunk, bool own_left = false) {
    step_.verbs |= kReduce;
    if (own_left) step_.flags |= kOwnLeft;
    return take(buffer, chunk);
  }
  /// The result of this step's reduction holds every rank's contribution.
  TUTTI_HD constexpr StepBuilder& complete() {
    step_.flags |= kComplete;
    return *this;
  }

  TUTTI_HD constexpr StepBuilder& store(BufferId buffer, std::uint32_t chunk) {
    step_.verbs |= kStore;
    step_.dst_buffer = buffer;
    step_.dst_chunk = chunk;
    return *this;
  }
  TUTTI_HD constexpr StepBuilder& send(std::int32_t peer) {
    step_.verbs |= kSend;
    step_.send_to = PeerSet::kOne;
    step_.send_peer = peer;
    return *this;
  }
  /// One message that every other rank reads.
  TUTTI_HD constexpr StepBuilder& send_all() {
    step_.verbs |= kSend;
    step_.send_to = PeerSet::kAll;
    return *this;
  }

  /// Several chunks: the named ones and those at every further 2^stride.
  TUTTI_HD constexpr StepBuilder& span(std::int32_t count, std::int32_t stride = 0) {
    return span_in_runs(count, 0, stride);
  }
  /// Several chunks in runs of 2^run every 2^period.
  TUTTI_HD constexpr StepBuilder& span_in_runs(std::int32_t count, std::int32_t run, std::int32_t period) {
    step_.span.count = static_cast<std::uint32_t>(count) & 0x3fffff;
    step_.span.run = static_cast<std::uint32_t>(run) & 31;
    step_.span.period = static_cast<std::uint32_t>(period) & 31;
    return *this;
  }
  TUTTI_HD constexpr StepBuilder& descending() {
    step_.flags |= kDescending;
    return *this;
  }

  /// Nothing depends on when this happens.
  TUTTI_HD constexpr StepBuilder& aside() {
    step_.flags |= kAside;
    return *this;
  }

  TUTTI_HD constexpr Step step() const { return step_; }

 private:
  Step step_;
};

/// What a reduction, a gather or a broadcast is for one rank: input to output, each lane its own part. Where the two
/// buffers are one, the executor has nothing to do.
TUTTI_HD constexpr Step copy_step(std::uint32_t lane) {
  return StepBuilder(lane, lane).take(BufferId::kInput, lane).store(BufferId::kOutput, lane).step();
}

}  // namespace tutti
