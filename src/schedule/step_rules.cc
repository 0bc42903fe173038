#include "schedule/step_rules.h"

#include "schedule/span.h"

namespace tutti {

namespace {

const char* find_verb_fault(const StepPlace& place, const Step& step) {
  const char* problem = nullptr;
  const bool barrier = place.program.collective() == Collective::kBarrier;
  const bool reads = step.has(kReduce) || !step.has(kRecv);
  const bool one_peer = step.recv_from == PeerSet::kOne;
  if (step.verbs == 0 || step.verbs > 15) problem = "no verb, or an unknown one";
  if (step.lane != place.lane) problem = "of another lane";
  if (step.has(kReduce) && !step.has(kRecv)) problem = "reduces without receiving";
  if (step.has(kRecv) != (step.recv_from != PeerSet::kNone)) problem = "verbs and peers to receive from disagree";
  if (step.has(kSend) != (step.send_to != PeerSet::kNone)) problem = "verbs and peers to send to disagree";
  if (step.is(kMulticastRecv) && !step.has(kRecv)) problem = "a multicast receive that does not receive";
  if (step.is(kOwnLeft) && !(step.has(kReduce) && one_peer)) problem = "own-left without a reduction with one peer";
  if (step.is(kComplete) && !step.has(kReduce)) problem = "complete without a reduction";
  if (step.is(kDescending) && !step.has(kStore)) problem = "descending without a store";
  if (step.is(kAside) && (step.verbs != kStore || step.src_buffer != BufferId::kInput ||
                          step.dst_buffer != BufferId::kOutput || step.span.count != 1)) {
    problem = "aside, but not the copy of an input chunk to the output";
  }
  if (place.follows_aside && !step.is(kAside)) problem = "comes after a step that is aside";
  if (barrier && (step.has(kReduce | kStore) || step.src_buffer != BufferId::kNone)) problem = "a barrier with data";
  if (barrier && place.program.lanes() != 1) problem = "a barrier with several lanes";
  if (!barrier && reads == (step.src_buffer == BufferId::kNone)) problem = "verbs and source disagree";
  if (step.has(kStore) == (step.dst_buffer == BufferId::kNone)) problem = "verbs and destination disagree";
  if (!barrier && !step.has(kStore | kSend)) problem = "its value goes nowhere";
  if (!barrier && step.recv_from > PeerSet::kOne && !step.has(kReduce)) problem = "receives a set but reduces nothing";
  return problem;
}

bool has_right_peers(const StepPlace& place, const Step& step) {
  const std::int32_t ranks = place.program.ranks();
  const auto is_peer = [&](std::int32_t peer) { return peer >= 0 && peer < ranks && peer != place.rank; };
  const bool named = step.recv_from == PeerSet::kOne || step.recv_from == PeerSet::kGroup;
  const bool recv_ok = step.recv_from == PeerSet::kOne ? is_peer(step.recv_peer) : named || step.recv_peer == -1;
  const bool send_ok = step.send_to == PeerSet::kOne ? is_peer(step.send_peer) : step.send_peer == -1;
  const bool alone = ranks == 1 && step.has(kRecv | kSend);
  const bool no_set = step.recv_from > PeerSet::kOne && place.peers.count < 2;
  return recv_ok && send_ok && !alone && !no_set && step.send_to <= PeerSet::kAll;
}

/// What is wrong with a step of several chunks; nullptr if nothing is.
const char* find_span_fault(const StepPlace& place, const Step& step) {
  const char* problem = nullptr;
  if (step.span.count == 0) problem = "no chunks";
  if (step.span.run > step.span.period) problem = "runs that overlap";
  if (place.program.collective() == Collective::kBarrier) problem = "a barrier with several chunks";
  if (step.send_to > PeerSet::kOne || step.is(kMulticastRecv)) problem = "several chunks to or from a multicast";
  // The executors reduce the messages of a set range by range only where that is one range.
  const bool in_scratch = step.src_buffer == BufferId::kScratch || step.dst_buffer == BufferId::kScratch;
  if (step.recv_from > PeerSet::kOne && (has_blocks(place.extent) || in_scratch)) {
    problem = "several chunks of several peers that do not adjoin";
  }
  if (step.has(kRecv | kSend) && step.span.count > place.extent.message_chunks) {
    problem = "more chunks than a message holds";
  }
  // Parts of one block differ in size, so both ends of a message must mean the same ones.
  if (!has_blocks(place.extent) && step.span.run != step.span.period) problem = "parts of one block that do not adjoin";
  return problem;
}

}  // namespace

const char* find_step_fault(const StepPlace& place, const Step& step) {
  if (const char* problem = find_verb_fault(place, step)) return problem;
  if (!has_right_peers(place, step)) return "a peer that is none";
  return step.span.count == 1 ? nullptr : find_span_fault(place, step);
}

// Chunks of one part index are equally large; a step must not mix sizes.
const char* find_chunk_fault(const SymbolicMemory& cells, const Step& step) {
  const auto fits = [&](BufferId buffer, std::uint32_t chunk) {
    const bool sized = buffer == BufferId::kInput || buffer == BufferId::kOutput;
    return !sized || chunk == step.chunk || chunk % cells.parts() == step.chunk % cells.parts();
  };
  if (step.chunk >= cells.chunks()) return "a chunk that the result does not have";
  const bool same = fits(step.src_buffer, step.src_chunk) && fits(step.dst_buffer, step.dst_chunk);
  return same ? nullptr : "chunks of different sizes";
}

}  // namespace tutti
