#include "comm/membership/finalize_exchange.h"

#include <chrono>
#include <utility>

namespace tutti {

FinalizeExchange::FinalizeExchange(EventLoop& loop, ControlConnections& connections, BoardExchange& boards,
                                   MemberTable& members, Callbacks callbacks)
    : loop_(loop),
      connections_(connections),
      boards_(boards),
      members_(members),
      callbacks_(std::move(callbacks)),
      tree_(connections.order(), connections.self()) {}

void FinalizeExchange::close() {
  closed_ = true;
  loop_.cancel(late_timer_);
}

void FinalizeExchange::come(Rank rank, std::uint64_t sequence) {
  if (closed_ || !tree_.come(rank, sequence)) return;
  if (tree_.complete() != 0) tell_those_above();
  if (!all_have_come() && late_timer_ == 0) wait_for_late_ranks();
}

void FinalizeExchange::wait_for_late_ranks() {
  constexpr std::chrono::milliseconds kLate{250}, kTurn{8};
  late_timer_ = loop_.after(kLate + ranks_per_core_ * kTurn, [this] {
    tell_who_has_come();
    tell_what_late_ranks_finished();
    wait_for_late_ranks();
  });
}

/// Also of neighbours, because one that is stopped cannot do so itself.
void FinalizeExchange::tell_who_has_come() {
  std::vector<Rank> ranks = connections_.ranks_at(connections_.self());
  for (const auto& [process, peer] : connections_.peers())
    ranks.insert(ranks.end(), peer->ranks().begin(), peer->ranks().end());
  std::vector<MemberEvent> events;
  for (const Rank rank : ranks) {
    const std::uint64_t sequence = boards_.finalize_of(rank);
    if (sequence != 0 && members_.set_finishing(rank, sequence))
      events.push_back(
          MemberEvent{.rank = rank, .kind = MemberEventKind::kFinishing, .sequence = sequence, .note = {}});
  }
  callbacks_.send_events(events);
}

void FinalizeExchange::hear_that_some_wait(std::uint64_t sequence) {
  if (closed_ || all_have_come() || sequence <= awaited_) return;
  awaited_ = sequence;
  tell_what_late_ranks_finished();
  if (late_timer_ == 0) wait_for_late_ranks();
}

/// A rank that has not finished yet is looked at again whenever the timer ends.
void FinalizeExchange::tell_what_late_ranks_finished() {
  if (awaited_ < 2) return;
  const std::uint64_t last = awaited_ - 1;
  std::vector<MemberEvent> events;
  for (const Rank rank : connections_.ranks_at(connections_.self())) {
    if (boards_.finalize_of(rank) != 0) continue;
    std::vector<Call> calls = boards_.finished_calls(rank, last);
    if (calls.empty() || !members_.set_finished(rank, last)) continue;
    events.push_back(MemberEvent{
        .rank = rank, .kind = MemberEventKind::kFinished, .sequence = last, .note = {}, .calls = std::move(calls)});
  }
  callbacks_.send_events(events);
}

Status FinalizeExchange::take(const PeerProcess& peer, ByteView payload) {
  FinishingMessage message;
  TUTTI_TRY(decode(payload, &message));
  if (message.all) {
    if (message.sequence != tree_.complete()) return fail(Code::kRemoteError, "not all ranks have come to Finalize");
    all_come(message.sequence);
  } else if (tree_.come_below(*connections_.order().find(peer.process()), message.sequence) && tree_.complete() != 0) {
    tell_those_above();
  }
  return {};
}

/// All ranks of this process, and of those below it, have come.
void FinalizeExchange::tell_those_above() {
  const ProcessOrder& order = connections_.order();
  const auto parent = order.parent(connections_.self());
  if (!parent) return all_come(tree_.complete());
  if (const auto peer = connections_.find(order[*parent].process)) send_state(*peer);
}

void FinalizeExchange::all_come(std::uint64_t sequence) {
  if (!tree_.set_all(sequence)) return;
  loop_.cancel(late_timer_);
  for (Rank rank{0}; rank.value < members_.ranks(); ++rank) boards_.note_sequence(rank, sequence);
  connections_.send(MessageType::kFinishing, encode(FinishingMessage{sequence, true}));
  callbacks_.on_all();
}

void FinalizeExchange::send_state(PeerProcess& peer) {
  const ProcessOrder& order = connections_.order();
  const auto parent = order.parent(connections_.self());
  const bool above = parent && order[*parent].process == peer.process();
  if (all_have_come()) {
    peer.send(MessageType::kFinishing, encode(FinishingMessage{tree_.all(), true}));
  } else if (above && tree_.complete() != 0) {
    peer.send(MessageType::kFinishing, encode(FinishingMessage{tree_.complete(), false}));
  }
}

}  // namespace tutti
