// The prover's rules: what a step must be, why a program stopped, and what must be there at the end.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/drawing.h"
#include "schedule/prover.h"
#include "schedule/span.h"
#include "schedule/step_rules.h"

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
  const Step& step = strand.step;
  const StepPlace place{*program_, extent_, strand.rank, strand.lane, strand.aside, strand.peers};
  if (const char* problem = find_step_fault(place, step)) return report(Check::kStep, strand, problem);
  if (!arrived_.empty()) return true;
  Strand one = strand;
  for (std::uint32_t j = 0; j < step.span.count; ++j) {
    if (step.span.count > 1) one.step = single_step(step, j, extent_);
    if (const char* problem = find_chunk_fault(cells_, one.step)) return report(Check::kMemory, one, problem);
  }
  return true;
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

namespace {
/// Whether a rank's step receives from a peer, alone or among others.
bool receives_from(const Program& program, std::int32_t rank, const Step& step, std::int32_t peer) {
  if (step.recv_from == PeerSet::kOne) return step.recv_peer == peer;
  const PeerList peers = senders_of(program.at(rank), step);
  for (std::int32_t i = 0; i < peers.count; ++i) {
    if (peers[i] == peer) return true;
  }
  return false;
}
}  // namespace

bool Prover::is_used_later(const LinkName& link, bool by_sender) const {
  const std::int32_t rank = by_sender ? link.from : link.to;
  for (const Strand& strand : strands_) {
    if (strand.rank != rank || strand.lane != link.lane) continue;
    for (std::uint32_t i = strand.next; i < strand.steps; ++i) {
      const Step step = program_->step(rank, link.lane, i);
      const bool sends =
          step.has(kSend) && (link.multicast ? step.send_to == PeerSet::kAll : step.send_peer == link.to);
      const bool receives = step.has(kRecv) && step.is(kMulticastRecv) == link.multicast &&
                            receives_from(*program_, rank, step, link.from);
      if (by_sender ? sends : receives) return true;
    }
  }
  return false;
}

/// A reader of a full link that will never receive from it again, or -1.
std::int32_t Prover::find_deaf_reader(const LinkName& link) {
  for (std::int32_t reader = 0; reader < program_->ranks(); ++reader) {
    const bool reads = link.multicast ? reader != link.from : reader == link.to;
    const LinkName view{link.from, reader, link.lane, link.multicast};
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
      *origin = Origin{program_->root(), chunk};
      return true;
    case Collective::kAllGather:
    case Collective::kGather:
      *origin = Origin{source, chunk};
      return true;
    case Collective::kScatter:
      *origin = Origin{program_->root(), block + chunk};
      return true;
    case Collective::kAllToAll: {
      const std::uint32_t before = chunk / parts * static_cast<std::uint32_t>(program_->ranks()) * parts;
      *origin = Origin{source, before + block + chunk % parts};
      return true;
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
