// The prover's rules: what a step must be, why a program stopped, and what must be there at the end.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/drawing.h"
#include "schedule/prover.h"
#include "schedule/span.h"

namespace tutti {

/// The blocks that the collective's buffers have, alike on all ranks.
bool Prover::check_extents() {
  const CollectiveTraits& traits = traits_of(program_->collective());
  const auto inputs = static_cast<std::uint32_t>(count_of(traits.input, program_->ranks()));
  const auto outputs = static_cast<std::uint32_t>(count_of(traits.output, program_->ranks()));
  const std::uint32_t parts = program_->extent(0).parts;
  for (std::int32_t rank = 0; rank < program_->ranks(); ++rank) {
    const Extent extent = program_->extent(rank);
    if (extent.input_blocks != inputs || extent.output_blocks != outputs || extent.parts != parts || parts == 0 ||
        extent.message_chunks != program_->extent(0).message_chunks) {
      return report_outcome(Check::kStep, rank, "blocks or parts are not those of the collective on all ranks");
    }
  }
  return true;
}

bool Prover::check_step(const Strand& strand) {
  if (!check_verbs(strand) || !check_peers(strand)) return false;
  if (strand.step.span.count == 1) return !arrived_.empty() || check_sizes(strand);
  if (!check_span(strand)) return false;
  Strand one = strand;
  for (std::uint32_t j = 0; j < strand.step.span.count; ++j) {
    one.step = single_step(strand.step, j, extent_);
    if (!check_sizes(one)) return false;
  }
  return true;
}

/// A step with several chunks, or none.
bool Prover::check_span(const Strand& strand) {
  const Step& step = strand.step;
  const char* problem = nullptr;
  if (step.span.count == 0) problem = "no chunks";
  if (step.span.run > step.span.period) problem = "runs that overlap";
  if (!arrived_.empty()) problem = "a barrier with several chunks";
  if (step.recv_from > PeerSet::kOne || step.send_to > PeerSet::kOne || step.is(kSharedRecv)) {
    problem = "several chunks with several peers";
  }
  if (step.has(kRecv | kSend) && step.span.count > extent_.message_chunks) problem = "more chunks than a message holds";
  // Parts of one block differ in size, so both ends of a message must mean the same ones.
  if (!has_blocks(extent_) && step.span.run != step.span.period) problem = "parts of one block that do not adjoin";
  return problem == nullptr || report(Check::kStep, strand, problem);
}

/// A step may store where it takes the same chunk from, but not where it takes another one from: the order within a
/// step is the executor's.
bool Prover::check_overlap(const Strand& strand) {
  const Step& step = strand.step;
  const bool apart = (step.src_buffer == BufferId::kScratch) != (step.dst_buffer == BufferId::kScratch);
  if (!step.has(kStore) || step.src_buffer == BufferId::kNone || apart) return true;
  const auto cells_at = [&](BufferId buffer, std::uint32_t chunk) { return cells_.locate(strand.rank, buffer, chunk); };
  touched_.clear();
  for (std::uint32_t j = 0; j < step.span.count; ++j) {
    const Step one = single_step(step, j, extent_);
    touched_.push_back(cells_at(one.src_buffer, one.src_chunk));
  }
  std::ranges::sort(touched_);
  for (std::uint32_t j = 0; j < step.span.count; ++j) {
    const Step one = single_step(step, j, extent_);
    const std::size_t stored = cells_at(one.dst_buffer, one.dst_chunk);
    const bool itself = stored == cells_at(one.src_buffer, one.src_chunk);
    if (!itself && stored != SymbolicMemory::kNowhere && std::ranges::binary_search(touched_, stored)) {
      return report(Check::kMemory, strand, "stores where it takes another of its chunks from");
    }
  }
  return true;
}

bool Prover::check_verbs(const Strand& strand) {
  const Step& step = strand.step;
  const char* problem = nullptr;
  const bool barrier = !arrived_.empty();
  const bool reads = step.has(kReduce) || !step.has(kRecv);
  const bool one_peer = step.recv_from == PeerSet::kOne;
  if (step.verbs == 0 || step.verbs > 15) problem = "no verb, or an unknown one";
  if (step.lane != strand.lane) problem = "of another lane";
  if (step.has(kReduce) && !step.has(kRecv)) problem = "reduces without receiving";
  if (step.has(kRecv) != (step.recv_from != PeerSet::kNone)) problem = "verbs and peers to receive from disagree";
  if (step.has(kSend) != (step.send_to != PeerSet::kNone)) problem = "verbs and peers to send to disagree";
  if (step.is(kSharedRecv) && !step.has(kRecv)) problem = "a shared receive that does not receive";
  if (step.is(kOwnLeft) && !(step.has(kReduce) && one_peer)) problem = "own-left without a reduction with one peer";
  if (step.is(kComplete) && !step.has(kReduce)) problem = "complete without a reduction";
  if (step.is(kDescending) && !step.has(kStore)) problem = "descending without a store";
  if (step.is(kAside) && (step.verbs != kStore || step.src_buffer != BufferId::kInput ||
                          step.dst_buffer != BufferId::kOutput || step.span.count != 1)) {
    problem = "aside, but not the copy of an input chunk to the output";
  }
  if (strand.aside && !step.is(kAside)) problem = "comes after a step that is aside";
  if (barrier && (step.has(kReduce | kStore) || step.src_buffer != BufferId::kNone)) problem = "a barrier with data";
  if (barrier && program_->lanes() != 1) problem = "a barrier with several lanes";
  if (!barrier && reads == (step.src_buffer == BufferId::kNone)) problem = "verbs and source disagree";
  if (step.has(kStore) == (step.dst_buffer == BufferId::kNone)) problem = "verbs and destination disagree";
  if (!barrier && !step.has(kStore | kSend)) problem = "its value goes nowhere";
  if (!barrier && step.recv_from > PeerSet::kOne && !step.has(kReduce)) problem = "receives a set but reduces nothing";
  return problem == nullptr || report(Check::kStep, strand, problem);
}

bool Prover::check_peers(const Strand& strand) {
  const Step& step = strand.step;
  const auto is_peer = [&](std::int32_t peer) { return peer >= 0 && peer < program_->ranks() && peer != strand.rank; };
  const bool recv_ok = step.recv_from == PeerSet::kOne ? is_peer(step.recv_peer) : step.recv_peer == -1;
  const bool send_ok = step.send_to == PeerSet::kOne ? is_peer(step.send_peer) : step.send_peer == -1;
  const bool alone = program_->ranks() == 1 && step.has(kRecv | kSend);
  const bool no_set = step.recv_from > PeerSet::kOne && strand.peers.count < 2;
  return (recv_ok && send_ok && !alone && !no_set && step.send_to <= PeerSet::kAll) ||
         report(Check::kStep, strand, "a peer that is none");
}

/// Chunks of one part index are equally large; a step must not mix sizes.
bool Prover::check_sizes(const Strand& strand) {
  const Step& step = strand.step;
  const auto fits = [&](BufferId buffer, std::uint32_t chunk) {
    const bool sized = buffer == BufferId::kInput || buffer == BufferId::kOutput;
    return !sized || chunk == step.chunk || chunk % cells_.parts() == step.chunk % cells_.parts();
  };
  if (step.chunk >= cells_.chunks()) return report(Check::kMemory, strand, "a chunk that the result does not have");
  return (fits(step.src_buffer, step.src_chunk) && fits(step.dst_buffer, step.dst_chunk)) ||
         report(Check::kMemory, strand, "chunks of different sizes");
}

bool Prover::receives_from(std::int32_t rank, const Step& step, std::int32_t peer) const {
  if (step.recv_from == PeerSet::kOne) return step.recv_peer == peer;
  const PeerList peers = peers_of(program_->at(rank), step.recv_from);
  for (std::int32_t i = 0; i < peers.count; ++i) {
    if (peers[i] == peer) return true;
  }
  return false;
}

bool Prover::is_used_later(const LinkName& link, bool by_sender) const {
  const std::int32_t rank = by_sender ? link.from : link.to;
  for (const Strand& strand : strands_) {
    if (strand.rank != rank || strand.lane != link.lane) continue;
    for (std::uint32_t i = strand.next; i < strand.steps; ++i) {
      const Step step = program_->step(rank, link.lane, i);
      const bool sends = step.has(kSend) && (link.shared ? step.send_to == PeerSet::kAll : step.send_peer == link.to);
      const bool receives =
          step.has(kRecv) && step.is(kSharedRecv) == link.shared && receives_from(rank, step, link.from);
      if (by_sender ? sends : receives) return true;
    }
  }
  return false;
}

/// A reader of a full link that will never receive from it again, or -1.
std::int32_t Prover::find_deaf_reader(const LinkName& link) {
  for (std::int32_t reader = 0; reader < program_->ranks(); ++reader) {
    const bool reads = link.shared ? reader != link.from : reader == link.to;
    const LinkName view{link.from, reader, link.lane, link.shared};
    if (reads && links_.front(view) && !is_used_later(view, false)) return reader;
  }
  return -1;
}

/// Nothing moves. If someone waits for what never comes, that is the fault; else they wait in a circle.
bool Prover::explain_stop() {
  const Strand* first = nullptr;
  std::string waits;
  for (const Strand& strand : strands_) {
    if (strand.next == strand.steps) continue;
    const Step& step = strand.step;
    const bool one = step.recv_from == PeerSet::kOne;
    const bool all_seen = !one && strand.seen == strand.peers.count;
    const std::int32_t peer = one || all_seen ? step.recv_peer : strand.peers[strand.seen];
    const bool wants_message = step.has(kRecv) && !all_seen && !links_.front(inbound(strand, peer));
    if (wants_message && !is_used_later(inbound(strand, peer), true)) {
      return report(Check::kMatching, strand, fmt::format("rank {} never sends this", peer));
    }
    if (!wants_message) {
      const std::int32_t deaf = find_deaf_reader(outbound(strand));
      if (deaf >= 0) return report(Check::kMatching, strand, fmt::format("rank {} never receives this", deaf));
    }
    if (first) continue;
    first = &strand;
    waits = wants_message ? fmt::format("waits for a message of rank {}", peer)
                          : fmt::format("waits for a credit to {}",
                                        step.send_to == PeerSet::kAll ? "all" : fmt::format("rank {}", step.send_peer));
  }
  return report(Check::kDeadlock, *first, waits);
}

bool Prover::check_outcome() {
  LinkName link{};
  if (links_.find_unread(&link)) {
    return report_outcome(Check::kMatching, link.to,
                          fmt::format("a message of rank {} on lane {} is never received", link.from, link.lane));
  }
  if (!arrived_.empty()) return check_barrier();
  const Extent extent = program_->extent(0);
  const std::uint32_t outputs = extent.output_blocks * extent.parts;
  expressions_.assign(outputs, 0);
  for (std::int32_t rank = 0; rank < program_->ranks(); ++rank) {
    if (!has_output(program_->collective(), rank == program_->root())) continue;
    for (std::uint32_t chunk = 0; chunk < outputs; ++chunk) {
      if (!check_chunk(rank, chunk)) return false;
    }
  }
  return true;
}

/// Where output chunk `chunk` of `rank` comes from, where the collective only moves: a rank, and its input's chunk of
/// the result.
bool Prover::find_origin(std::int32_t rank, std::uint32_t chunk, Origin* origin) const {
  const std::uint32_t parts = cells_.parts();
  const std::uint32_t block = static_cast<std::uint32_t>(rank) * parts;  // where the rank's own block begins
  const auto source = static_cast<std::int32_t>(chunk / parts);
  switch (program_->collective()) {
    case Collective::kBroadcast:
      return *origin = Origin{program_->root(), chunk}, true;
    case Collective::kAllGather:
    case Collective::kGather:
      return *origin = Origin{source, chunk}, true;
    case Collective::kScatter:
      return *origin = Origin{program_->root(), block + chunk}, true;
    case Collective::kAllToAll: {
      const std::uint32_t before = chunk / parts * static_cast<std::uint32_t>(program_->ranks()) * parts;
      return *origin = Origin{source, before + block + chunk % parts}, true;
    }
    default:
      return false;
  }
}

/// What output chunk `chunk` of `rank` must hold, by the collective.
bool Prover::check_chunk(std::int32_t rank, std::uint32_t chunk) {
  const ValueId id = cells_.stored(rank, chunk);
  if (id == kNoValue) {
    return report_outcome(Check::kContributions, rank, fmt::format("output chunk {} is never stored", chunk));
  }
  const Collective collective = program_->collective();
  const Value& value = values_[id];
  Origin origin{};
  if (find_origin(rank, chunk, &origin)) {
    const bool right = value.expression == ContributionPool::leaf_expression(origin.rank, origin.chunk);
    return right || report_outcome(Check::kContributions, rank,
                                   fmt::format("output chunk {} is not rank {}'s input", chunk, origin.rank));
  }
  const bool scatter = collective == Collective::kReduceScatter;
  const std::uint32_t of = scatter ? static_cast<std::uint32_t>(rank) * cells_.parts() + chunk : chunk;
  if (value.chunk != of) {
    return report_outcome(Check::kContributions, rank,
                          fmt::format("output chunk {} holds chunk {}", chunk, value.chunk));
  }
  if (!values_.is_full(id) || (program_->ranks() > 1 && !value.complete)) {
    return report_outcome(
        Check::kContributions, rank,
        fmt::format("output chunk {} lacks contributions (rank {})", chunk, values_.missing_rank(id)));
  }
  if (collective != Collective::kAllReduce) return true;
  if (rank == 0) expressions_[chunk] = value.expression;
  return expressions_[chunk] == value.expression ||
         report_outcome(Check::kExpression, rank,
                        fmt::format("output chunk {} is added in another order than on rank 0", chunk));
}

bool Prover::check_barrier() {
  for (std::int32_t rank = 0; rank < program_->ranks(); ++rank) {
    const ValueId known = arrived_[static_cast<std::size_t>(rank)];
    if (!values_.is_full(known)) {
      return report_outcome(
          Check::kContributions, rank,
          fmt::format("leaves before it knows that rank {} has arrived", values_.missing_rank(known)));
    }
  }
  return true;
}

bool Prover::report_outcome(Check check, std::int32_t rank, std::string text) {
  text = fmt::format("{}: rank {} of {}: {}", name_of(check), rank, program_->ranks(), text);
  fault_ = Fault{check, rank, -1, -1, std::move(text)};
  return false;
}

}  // namespace tutti
