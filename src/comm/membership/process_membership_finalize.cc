// How the processes of a communicator hear that all ranks have come to Finalize.
//
// Each sends its board to those that it is connected to. In a mesh these are all. Else the tree counts those that have
// come. If somebody does not come, each that has come is an event, which travels as the end of a rank does.
#include <chrono>
#include <utility>

#include "comm/membership/hub.h"
#include "comm/membership/process_membership.h"

namespace tutti {

void ProcessMembership::publish_board(Rank of) {
  const bool known =
      boards_->publish(of, [this](ByteView message) { connections_.send(MessageType::kBoard, message); });
  if (!known) return;  // others look at the rank's memory
  hub_.loop().post([self = shared_from_this(), of, sequence = boards_->own_sequence(of)] {
    self->boards_->copy_own();
    if (self->tree_) self->come_to_finalize(of, sequence);
  });
}

void ProcessMembership::come_to_finalize(Rank rank, std::uint64_t sequence) {
  if (!tree_->come(rank, sequence)) return;
  if (tree_->complete() != 0) tell_those_above();
  if (!all_have_come() && late_timer_ == 0) wait_for_late_ranks();
}

/// Ranks that share a core come one after the other.
void ProcessMembership::wait_for_late_ranks() {
  constexpr std::chrono::milliseconds kLate{250}, kTurn{8};
  late_timer_ = hub_.loop().after(kLate + ranks_per_core_ * kTurn, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->tell_who_has_come();
    self->wait_for_late_ranks();
  });
}

/// Also of neighbours, because one that is stopped cannot do so itself.
void ProcessMembership::tell_who_has_come() {
  std::vector<Rank> ranks = local_ranks_;
  for (const auto& [process, peer] : connections_.peers())
    ranks.insert(ranks.end(), peer->ranks().begin(), peer->ranks().end());
  std::vector<MemberEvent> events;
  for (const Rank rank : ranks) {
    const std::uint64_t sequence = boards_->finalize_of(rank);
    if (sequence != 0 && member_table_->set_finishing(rank, sequence))
      events.push_back(
          MemberEvent{.rank = rank, .kind = MemberEventKind::kFinishing, .sequence = sequence, .note = {}});
  }
  send_events(events);
}

Status ProcessMembership::take_finishing(const PeerProcess& peer, ByteView payload) {
  FinishingMessage message;
  TUTTI_TRY(decode(payload, &message));
  if (!tree_) return fail(Code::kRemoteError, "another process tells of all ranks, though each tells of its own");
  if (message.all) {
    if (message.sequence != tree_->complete()) return fail(Code::kRemoteError, "not all ranks have come to Finalize");
    all_come(message.sequence);
  } else if (tree_->come_below(*order().find(peer.process()), message.sequence) && tree_->complete() != 0) {
    tell_those_above();
  }
  return {};
}

/// All ranks of this process, and of those below it, have come.
void ProcessMembership::tell_those_above() {
  const auto parent = order().parent(connections_.self());
  if (!parent) return all_come(tree_->complete());
  if (const auto peer = connections_.find(order()[*parent].process)) send_finishing(*peer);
}

void ProcessMembership::all_come(std::uint64_t sequence) {
  if (!tree_->set_all(sequence)) return;
  hub_.loop().cancel(std::exchange(late_timer_, 0));
  hub_.loop().cancel(std::exchange(mend_timer_, 0));
  events_.clear();
  for (Rank rank{0}; rank.value < member_table_->ranks(); ++rank) boards_->note_sequence(rank, sequence);
  connections_.send(MessageType::kFinishing, encode(FinishingMessage{sequence, true}));
  member_table_->notify();
}

/// What the peer may not have heard of all ranks, or, if it is the parent, of those below this process.
void ProcessMembership::send_finishing(PeerProcess& peer) {
  const auto parent = order().parent(connections_.self());
  const bool above = parent && order()[*parent].process == peer.process();
  if (tree_->all() != 0) {
    peer.send(MessageType::kFinishing, encode(FinishingMessage{tree_->all(), true}));
  } else if (above && tree_->complete() != 0) {
    peer.send(MessageType::kFinishing, encode(FinishingMessage{tree_->complete(), false}));
  }
}

}  // namespace tutti
