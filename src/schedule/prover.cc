#include "schedule/prover.h"

#include <fmt/format.h>

#include "schedule/drawing.h"
#include "schedule/span.h"

namespace tutti {

const char* name_of(Check check) {
  switch (check) {
    case Check::kStep:
      return "malformed step";
    case Check::kMatching:
      return "sends and receives do not match";
    case Check::kContributions:
      return "wrong contributions";
    case Check::kMemory:
      return "wrong use of memory";
    case Check::kDeadlock:
      return "deadlock";
    case Check::kExpression:
      return "wrong order of operands";
    case Check::kReference:
      return "overwrites what was sent by reference";
  }
  return "unknown";
}

std::optional<Fault> Prover::find_fault(const Program& program, const ProofOptions& options) {
  fault_.reset();
  if (start(program, options) && run()) check_outcome();
  program_ = nullptr;
  return std::move(fault_);
}

bool Prover::start(const Program& program, const ProofOptions& options) {
  program_ = &program;
  if (!check_extents()) return false;
  const bool barrier = program.collective() == Collective::kBarrier;
  extent_ = program.extent(0);
  values_.reset(program.ranks(), options.exact || barrier);
  incoming_.clear();
  cells_.reset(program, options.aliasing);
  links_.reset(program.ranks(), program.lanes(), options.credits);
  by_reference_ = options.by_reference && !barrier;
  if (by_reference_) references_.reset(static_cast<std::size_t>(program.ranks()) * program.lanes(), cells_.size());
  strands_.clear();
  arrived_.clear();
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    if (barrier) arrived_.push_back(values_.leaf(rank, 0));
    for (std::uint32_t lane = 0; lane < program.lanes(); ++lane) {
      Strand strand;
      strand.rank = rank;
      strand.lane = lane;
      strand.steps = program.steps(rank);
      strands_.push_back(strand);
    }
  }
  for (Strand& strand : strands_) {
    if (!load(strand)) return false;
  }
  return true;
}

bool Prover::load(Strand& strand) {
  if (strand.next == strand.steps) return true;
  strand.seen = 0;
  strand.step = program_->step(strand.rank, strand.lane, strand.next);
  const bool set = strand.step.recv_from > PeerSet::kOne;
  strand.peers = set ? senders_of(program_->at(strand.rank), strand.step) : PeerList{};
  return check_step(strand);
}

/// Sweeps over the strands, up and down in turn so that chains of either direction take few sweeps, until nothing
/// moves.
bool Prover::run() {
  bool moved = true;
  for (bool up = true; moved; up = !up) {
    moved = false;
    for (std::size_t i = 0; i < strands_.size(); ++i) {
      Strand& strand = strands_[up ? i : strands_.size() - 1 - i];
      while (strand.next < strand.steps && can_run(strand)) {
        if (!execute(strand)) return false;
        strand.aside = strand.step.is(kAside);
        ++strand.next;
        if (!load(strand)) return false;
        moved = true;
      }
    }
  }
  for (const Strand& strand : strands_) {
    if (strand.next < strand.steps) return explain_stop();
  }
  return true;
}

LinkName Prover::inbound(const Strand& strand, std::int32_t peer) const {
  return LinkName{peer, strand.rank, strand.lane, strand.step.is(kMulticastRecv)};
}

LinkName Prover::outbound(const Strand& strand) const {
  const bool multicast = strand.step.send_to == PeerSet::kAll;
  return LinkName{strand.rank, multicast ? strand.rank : strand.step.send_peer, strand.lane, multicast};
}

bool Prover::can_run(Strand& strand) {
  const Step& step = strand.step;
  if (step.recv_from == PeerSet::kOne && !links_.front(inbound(strand, step.recv_peer))) return false;
  for (; strand.seen < strand.peers.count; ++strand.seen) {
    const std::int32_t peer = strand.peers[strand.seen];
    if (peer != strand.rank && !links_.front(inbound(strand, peer))) return false;
  }
  return !step.has(kSend) || links_.has_room(outbound(strand));
}

bool Prover::execute(Strand& strand) {
  const Step& step = strand.step;
  if (!arrived_.empty()) return execute_token(strand);
  outgoing_.clear();
  if (step.span.count == 1) {
    if (!execute_chunk(strand)) return false;
  } else {
    if (!check_overlap(strand) || (step.has(kRecv) && !receive_span(strand))) return false;
    Strand one = strand;
    for (std::uint32_t j = 0; j < step.span.count; ++j) {
      one.step = single_step(step, j, extent_);
      if (!execute_chunk(one)) return false;
    }
  }
  if (step.has(kSend)) {
    send(strand);
  } else {
    for (const ValueId value : outgoing_) values_.release(value);
  }
  if (by_reference_) references_.step_done(index_of(strand));
  return true;
}

/// Receive, reduce, store; what is left to send goes to outgoing_.
bool Prover::execute_chunk(const Strand& strand) {
  const Step& step = strand.step;
  ValueId value = kNoValue;
  if (step.has(kReduce)) {
    if (!reduce(strand, &value)) return false;
  } else if (step.has(kRecv)) {
    if (!receive(strand, step.recv_peer, &value)) return false;
  } else if (!access(strand, step.src_buffer, step.src_chunk, &value, kNoValue)) {
    return false;
  }
  if (by_reference_ && !may_store(strand)) return false;
  if (step.has(kStore) && !access(strand, step.dst_buffer, step.dst_chunk, nullptr, value)) return false;
  outgoing_.push_back(value);
  return true;
}

void Prover::send(const Strand& strand) {
  const Step& step = strand.step;
  Message message{kNoValue, step.chunk, ReferenceWatch::kNone};
  if (by_reference_) {
    const bool all = step.send_to == PeerSet::kAll;
    message.number = references_.sent(index_of(strand), all ? static_cast<std::uint32_t>(program_->ranks()) - 1 : 1);
    const auto refer = [&](BufferId buffer, std::uint32_t chunk) {
      const bool referred = buffer == BufferId::kInput || buffer == BufferId::kOutput;
      if (referred) references_.refer(message.number, cells_.locate(strand.rank, buffer, chunk));
    };
    const auto refer_to_chunk = [&](const Step& one) {
      if (!one.has(kRecv)) refer(one.src_buffer, one.src_chunk);
      if (one.has(kStore)) refer(one.dst_buffer, one.dst_chunk);
    };
    for (std::uint32_t j = 0; j < step.span.count; ++j) {
      refer_to_chunk(step.span.count == 1 ? step : single_step(step, j, extent_));
    }
  }
  links_.push(outbound(strand), message, outgoing_);
}

/// Whether what was sent from where the step stores has been consumed before, in every order of execution. A chunk
/// copied to itself, in place, is not written.
bool Prover::may_store(const Strand& strand) {
  const Step& step = strand.step;
  if (!step.has(kStore)) return true;
  const std::size_t cell = cells_.locate(strand.rank, step.dst_buffer, step.dst_chunk);
  if (cell == SymbolicMemory::kNowhere) return true;  // another rule's fault
  if (!step.has(kRecv) && cell == cells_.locate(strand.rank, step.src_buffer, step.src_chunk)) return true;
  return references_.may_write(index_of(strand), cell) ||
         report(Check::kReference, strand, "a reader may not have consumed what was sent from here");
}

bool Prover::report_message(const Strand& strand, std::int32_t peer, const Message& message) {
  const std::string chunks = message.count == 1 ? fmt::format("chunk {}", message.chunk)
                                                : fmt::format("{} chunks from {} on", message.count, message.chunk);
  return report(Check::kMatching, strand, fmt::format("rank {} sends {} here", peer, chunks));
}

/// The values of messages of several chunks, to be used chunk by chunk, and of each chunk in the order of the senders.
bool Prover::receive_span(const Strand& strand) {
  const bool one = strand.step.recv_from == PeerSet::kOne;
  const std::size_t senders = one ? 1 : static_cast<std::size_t>(strand.peers.count) - 1;
  incoming_.resize(senders * strand.step.span.count);
  if (one) return receive_span(strand, strand.step.recv_peer, 0, 1);
  std::size_t place = 0;
  for (std::int32_t i = 0; i < strand.peers.count; ++i) {
    const std::int32_t peer = strand.peers[i];
    if (peer != strand.rank && !receive_span(strand, peer, place++, senders)) return false;
  }
  return true;
}

/// The message of one peer, the `place`-th of `senders`.
bool Prover::receive_span(const Strand& strand, std::int32_t peer, std::size_t place, std::size_t senders) {
  const LinkName link = inbound(strand, peer);
  const Message message = *links_.front(link);
  if (message.chunk != strand.step.chunk || message.count != strand.step.span.count) {
    return report_message(strand, peer, message);
  }
  const std::span<const ValueId> values = links_.values(message);
  for (std::size_t j = 0; j < values.size(); ++j) {
    values_.retain(values[j]);
    incoming_[incoming_.size() - 1 - (j * senders + place)] = values[j];
  }
  links_.pop(link);
  if (by_reference_) references_.received(index_of(strand), message.number);
  return true;
}

bool Prover::receive(const Strand& strand, std::int32_t peer, ValueId* value) {
  if (!incoming_.empty()) {
    *value = incoming_.back();
    incoming_.pop_back();
    return true;
  }
  const LinkName link = inbound(strand, peer);
  const Message message = *links_.front(link);
  if (message.chunk != strand.step.chunk || message.count != 1) return report_message(strand, peer, message);
  values_.retain(*value = message.value);
  links_.pop(link);
  if (by_reference_) references_.received(index_of(strand), message.number);
  return true;
}

bool Prover::access(const Strand& strand, BufferId buffer, std::uint32_t chunk, ValueId* read, ValueId written) {
  // What may run at any time has no order with its own lane either.
  const std::uint32_t lane = strand.step.is(kAside) ? program_->lanes() + strand.lane : strand.lane;
  const Access access{strand.rank, lane, buffer, chunk};
  const char* problem = read ? cells_.read(access, read) : cells_.write(access, written);
  return problem == nullptr || report(Check::kMemory, strand, problem);
}

bool Prover::reduce(const Strand& strand, ValueId* value) {
  const Step& step = strand.step;
  ValueId own = kNoValue;
  if (!access(strand, step.src_buffer, step.src_chunk, &own, kNoValue)) return false;
  operands_.clear();
  const bool one = step.recv_from == PeerSet::kOne;
  if (one && step.is(kOwnLeft)) operands_.push_back(own);
  for (std::int32_t i = 0; i < (one ? 1 : strand.peers.count); ++i) {
    const std::int32_t peer = one ? step.recv_peer : strand.peers[i];
    ValueId operand = own;
    if (peer != strand.rank && !receive(strand, peer, &operand)) return false;
    operands_.push_back(operand);
  }
  if (one && !step.is(kOwnLeft)) operands_.push_back(own);

  const Combined combined = values_.combine(operands_);
  switch (combined.error) {
    case CombineError::kNone:
      break;
    case CombineError::kOverlap:
      return report(Check::kContributions, strand, fmt::format("operand {} holds a rank twice", combined.operand));
    case CombineError::kChunk:
      return report(Check::kContributions, strand, fmt::format("operand {} is of another chunk", combined.operand));
    case CombineError::kOrder:
      return report(Check::kExpression, strand,
                    fmt::format("operand {} holds a lower rank than the one before it", combined.operand));
  }
  for (const ValueId operand : operands_) values_.release(operand);
  *value = combined.value;
  if (values_.is_full(*value) != step.is(kComplete)) {
    const char* text =
        step.is(kComplete) ? "marked complete, but contributions are missing" : "complete, but not marked so";
    return report(Check::kContributions, strand, text);
  }
  if (step.is(kComplete)) values_.mark_complete(*value);
  return true;
}

/// A barrier's message says who is known to have arrived.
bool Prover::execute_token(Strand& strand) {
  const Step& step = strand.step;
  ValueId& known = arrived_[static_cast<std::size_t>(strand.rank)];
  const bool one = step.recv_from == PeerSet::kOne;
  for (std::int32_t i = 0; i < (one ? 1 : strand.peers.count); ++i) {
    const std::int32_t peer = one ? step.recv_peer : strand.peers[i];
    if (peer == strand.rank) continue;
    ValueId token = kNoValue;
    if (!receive(strand, peer, &token)) return false;
    const ValueId joined = values_.join(known, token);
    values_.release(token);
    values_.release(known);
    known = joined;
  }
  if (step.has(kSend)) {
    values_.retain(known);
    links_.push(outbound(strand), Message{kNoValue, step.chunk, ReferenceWatch::kNone}, {&known, 1});
  }
  return true;
}

bool Prover::report(Check check, const Strand& strand, std::string text) {
  text = fmt::format("{}: rank {} of {}, lane {}, step {} ({}): {}", name_of(check), strand.rank, program_->ranks(),
                     strand.lane, strand.next, to_text(strand.step), text);
  fault_ = Fault{check, strand.rank, static_cast<std::int32_t>(strand.lane), static_cast<std::int32_t>(strand.next),
                 std::move(text)};
  return false;
}

Status prove(const Algorithm& algorithm, const Shape& shape, const ProofOptions& options) {
  std::vector<Schedule> tables;
  if (options.exact) {
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      tables.push_back(build_schedule(algorithm, Program(algorithm, shape).at(rank)));
    }
  }
  const Program program = options.exact ? Program(tables) : Program(algorithm, shape);
  const std::optional<Fault> fault = Prover().find_fault(program, options);
  if (!fault) return Status();
  return fail(Code::kInternalError, "{} {}, root {}, {} lanes: {}", name_of(algorithm.collective), algorithm.name,
              shape.root, shape.lanes, fault->text);
}

}  // namespace tutti
