// What the processes of a communicator send each other once they are linked: ends of ranks, causes, boards.
#include <algorithm>
#include <new>
#include <utility>

#include "comm/membership/hub.h"
#include "comm/membership/process_membership.h"

namespace tutti {
namespace {

/// The time from the end of a process to new connections in its place. If the communicator ends as a whole, nothing of
/// it is left by then.
constexpr std::chrono::milliseconds kMendPause{250};
/// The time from an attempt that failed to the next candidate.
constexpr std::chrono::milliseconds kNextPause{10};

MemberEvent death_of(Rank rank, std::uint64_t sequence, const std::string& note = {}) {
  return MemberEvent{.rank = rank, .kind = MemberEventKind::kDead, .sequence = sequence, .note = note};
}

MemberEvent goodbye_of(Rank rank, std::uint64_t sequence, bool finished_by_all) {
  const MemberEventKind kind = finished_by_all ? MemberEventKind::kFinalized : MemberEventKind::kLeft;
  return MemberEvent{.rank = rank, .kind = kind, .sequence = sequence, .note = {}};
}

template <class Send>
void send_in_messages(const std::vector<MemberEvent>& items, Send send) {
  for (std::size_t i = 0; i < items.size(); i += MemberEventsMessage::kMaxItems) {
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end =
        items.begin() + static_cast<std::ptrdiff_t>(std::min(i + MemberEventsMessage::kMaxItems, items.size()));
    send(encode(MemberEventsMessage{{first, end}}));
  }
}

}  // namespace

bool ProcessMembership::is_local(Rank rank) const {
  return std::find(local_ranks_.begin(), local_ranks_.end(), rank) != local_ranks_.end();
}

bool ProcessMembership::lives(const PeerProcess& peer) const {
  if (!member_table_) return true;
  return connections_.is_present(*order().find(peer.process()));
}

void ProcessMembership::on_death(PeerProcess& peer, const std::string& note) {
  if (is_linking())
    return linker_->finish(
        fail(Code::kRemoteError, "{} ended while joining{}{}", peer.name(), note.empty() ? "" : ", or ", note));
  if (!member_table_) return;
  std::vector<MemberEvent> deaths;
  for (const Rank rank : peer.ranks()) {
    // If it had come to Finalize, it had finished all before that. Others may not have heard of it.
    const std::uint64_t finalize = boards_->finalize_of(rank);
    const std::uint64_t last = finalize == 0 ? 0 : finalize - 1;
    if (member_table_->end_life(rank, Liveness::kDead, last, note)) deaths.push_back(death_of(rank, last, note));
  }
  if (deaths.empty()) return;
  forward(deaths);
  member_table_->notify();
  if (listener_) listener_->on_ends();
}

/// In a mesh a process is believed about its own ranks only. Without a mesh, events come through other processes, which
/// have proved that they belong to the communicator.
Status ProcessMembership::take_events(const PeerProcess& peer, ByteView payload) {
  MemberEventsMessage message;
  TUTTI_TRY(decode(payload, &message));
  if (peer.connection()) peer.connection()->acknowledge();  // who leaves waits for that
  std::vector<MemberEvent> events;
  for (const MemberEvent& item : message.items) {
    const bool own = std::find(peer.ranks().begin(), peer.ranks().end(), item.rank) != peer.ranks().end();
    const bool known = item.rank.value >= 0 && item.rank.value < member_table_->ranks();
    if (!known || (order().is_mesh() && !own)) return fail(Code::kRemoteError, "the event of another process's rank");
    // A rank that leaves without an error knows that all have finished its last operation. So those that wait leave,
    // too, and who comes later need not ask. In a mesh each rank can be asked itself.
    const bool says_all_finished = item.kind == MemberEventKind::kFinalized && !order().is_mesh();
    if (says_all_finished && boards_->own_have_finished(item.sequence))
      member_table_->set_finished_by_all(item.sequence);
    if (apply(item)) events.push_back(item);
  }
  if (events.empty()) return {};
  forward(events);
  member_table_->notify();
  if (listener_) listener_->on_ends();
  return {};
}

bool ProcessMembership::apply(const MemberEvent& item) {
  if (item.kind == MemberEventKind::kFinishing) {
    boards_->note_sequence(item.rank, item.sequence);
    if (finalize_) finalize_->hear_that_some_wait(item.sequence);
    return member_table_->set_finishing(item.rank, item.sequence);
  }
  if (item.kind == MemberEventKind::kFinished) {
    boards_->note_finished(item.rank, item.calls);
    return member_table_->set_finished(item.rank, item.sequence);
  }
  if (is_local(item.rank)) {  // the rank lives, but nobody will wait for it or listen to it any more
    if (member_table_->liveness(item.rank) != Liveness::kAlive || item.kind != MemberEventKind::kDead) return false;
    const std::string text =
        fmt::format("the other ranks have given rank {} ({}) up{}{}", item.rank.value,
                    describe(member_table_->members()[item.rank]), item.note.empty() ? "" : ": ", item.note);
    return member_table_->set_cause(
        FailureCause{.code = Code::kRemoteError, .from = item.rank, .culprit = item.rank, .text = text});
  }
  const Liveness liveness = item.kind == MemberEventKind::kDead ? Liveness::kDead : Liveness::kLeft;
  return member_table_->end_life(item.rank, liveness, item.sequence, item.note);
}

/// Passes on events that are new here, because they may be new to others. Each process does so once, so this ends. Once
/// all ranks have come to Finalize, no rank waits for an event.
void ProcessMembership::forward(const std::vector<MemberEvent>& items) {
  if (order().is_mesh() || all_have_come()) return;
  events_.add(items);
  mend_later(kMendPause);
}

void ProcessMembership::send_events(const std::vector<MemberEvent>& items) {
  send_in_messages(items, [this](ByteView message) { connections_.send(MessageType::kMemberEvents, message); });
}

void ProcessMembership::mend_later(std::chrono::milliseconds pause) {
  if (mend_timer_ != 0 || all_have_come()) return;
  mend_timer_ = hub_.loop().after(pause, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->mend_timer_ = 0;
    self->connections_.mend();
  });
}

void ProcessMembership::on_unanswered(PeerProcess&) {
  if (member_table_ && !order().is_mesh()) mend_later(kNextPause);
}

/// Sends the first cause. In a mesh it does so only if a rank of this process posted it, because only that process is
/// believed.
void ProcessMembership::send_cause(Connection& connection) const {
  const FailureCause cause = member_table_->cause();
  if (cause.code != Code::kOk && (!order().is_mesh() || is_local(cause.from)))
    connection.send(MessageType::kCause, encode(cause));
}

/// Sends all that the peer may not have heard while there was no connection. It may have heard some of it before, which
/// does no harm.
void ProcessMembership::send_state(PeerProcess& peer) {
  peer.send(MessageType::kLinked, {});  // so that the peer hears something in any case
  send_cause(*peer.connection());
  for (const Rank rank : local_ranks_)
    boards_->publish(rank, [&peer](ByteView message) { peer.send(MessageType::kBoard, message); });
  std::vector<MemberEvent> events;
  for (MemberEvent& item : member_table_->life_events()) {
    if (order().is_mesh() && !is_local(item.rank)) continue;
    if (item.kind == MemberEventKind::kFinished) item.calls = boards_->finished_calls(item.rank, item.sequence);
    if (item.kind == MemberEventKind::kFinished && item.calls.empty()) continue;  // the peer would have to ask anyway
    events.push_back(std::move(item));
  }
  send_in_messages(events, [&peer](ByteView message) { peer.send(MessageType::kMemberEvents, message); });
  if (finalize_) finalize_->send_state(peer);
  connector_->ask_again(peer.process());
}

/// For the ranks of that process the ranks of this one are dead from now on.
void ProcessMembership::on_late_return(Connection& connection) {
  send_cause(connection);
  std::vector<MemberEvent> deaths;
  for (const Rank rank : local_ranks_) deaths.push_back(death_of(rank, 0));
  send_in_messages(deaths, [&connection](ByteView message) { connection.send(MessageType::kMemberEvents, message); });
}

Status ProcessMembership::take_cause(const PeerProcess& peer, ByteView payload) {
  FailureCause cause;
  TUTTI_TRY(decode(payload, &cause));
  const bool own = std::find(peer.ranks().begin(), peer.ranks().end(), cause.from) != peer.ranks().end();
  const bool known = cause.from.value >= 0 && cause.from.value < member_table_->ranks();
  if (!known || (order().is_mesh() && !own)) return fail(Code::kRemoteError, "a cause from somebody else");
  if (cause.culprit.value < 0 || cause.culprit.value >= member_table_->ranks()) cause.culprit = kNoRank;
  if (!member_table_->set_cause(cause)) return {};
  if (!order().is_mesh()) connections_.send(MessageType::kCause, encode(cause));
  member_table_->notify();
  return {};
}

void ProcessMembership::post_cause(Rank from, const FailureCause& cause) {
  FailureCause sent = cause;
  sent.from = from;
  if (sent.code == Code::kOk) sent.code = Code::kInternalError;
  // The ranks of this process come first, because that takes no memory if the text is short.
  if (member_table_->set_cause(sent)) member_table_->notify();
  connections_.send(MessageType::kCause, encode(sent));
}

void ProcessMembership::send_to(std::size_t place, MessageType type, ByteView payload) {
  if (present_ranks_.empty() || !connections_.is_present(place)) return;
  if (const auto peer = connections_.reach(place, nullptr)) peer->send(type, payload);
}

void ProcessMembership::fail_all(const Status& why) {
  if (is_linking()) return fail_join(why);
  if (listener_) listener_->on_failure(why);
  if (!member_table_ || present_ranks_.empty()) return;  // the group's join has failed, and is about to end
  const Rank first = *present_ranks_.begin();
  const std::string who = describe(member_table_->members()[first]);
  post_cause(first, FailureCause{.code = why.code(),
                                 .from = first,
                                 .culprit = first,
                                 .text = fmt::format("rank {} ({}): {}", first.value, who, why.text())});
}

void ProcessMembership::say_goodbye(Rank from, std::uint64_t last_sequence, bool finished_by_all) {
  // It is set first, so that a connection that is made meanwhile hears of the goodbye as the others do.
  if (finished_by_all) member_table_->set_finished_by_all(last_sequence);
  if (!member_table_->end_life(from, Liveness::kLeft, last_sequence)) return;
  send_events({goodbye_of(from, last_sequence, finished_by_all)});
  member_table_->notify();
  wake_listener();
}

/// Forwards events, too. Without memory for it, the listener looks by itself while it has something under way.
void ProcessMembership::wake_listener() noexcept {
  try {
    hub_.loop().post([self = shared_from_this()] {
      self->events_.flush();  // while there is still time for what other ranks have said
      if (const auto listener = self->listener_) listener->on_ends();
    });
  } catch (const std::bad_alloc&) {
  }
}

void ProcessMembership::abandon(Rank from, const Status& why) {
  if (member_table_->liveness(from) != Liveness::kAlive) return;
  // A rank that gives up because of a cause sends that cause, because its message may reach a peer before that of the
  // first messenger.
  FailureCause cause = member_table_->cause();
  if (cause.code == Code::kOk) {
    const std::string who = describe(member_table_->members()[from]);
    const std::string reason = why.ok() ? std::string() : ": " + why.text();
    cause = FailureCause{.code = Code::kRemoteError,
                         .from = from,
                         .culprit = from,
                         .text = fmt::format("rank {} ({}) gave the communicator up{}", from.value, who, reason)};
  }
  post_cause(from, cause);
  send_events({death_of(from, 0)});  // a second try may send it twice, which does no harm
  if (member_table_->end_life(from, Liveness::kDead, 0)) member_table_->notify();
  wake_listener();
}

void ProcessMembership::ask_boards(const std::vector<Rank>& of, int dials) {
  if (present_ranks_.empty()) return;
  std::vector<bool> asked(order().size());
  for (const Rank rank : of) {
    if (member_table_->liveness(rank) != Liveness::kAlive) continue;
    const std::size_t place = *order().find(member_table_->members().process(rank));
    if (asked[place]) continue;
    asked[place] = true;
    if (place == connections_.self()) boards_->copy_own();
    const auto peer = connections_.reach(place, &dials);
    if (peer && peer->connection() && boards_->may_ask(peer->ranks(), Clock::now()))
      peer->send(MessageType::kAskBoard, {});
  }
}

void ProcessMembership::publish_board(Rank of) {
  const bool known =
      boards_->publish(of, [this](ByteView message) { connections_.send(MessageType::kBoard, message); });
  if (!known) return;  // others look at the rank's memory
  hub_.loop().post([self = shared_from_this(), of, sequence = boards_->own_sequence(of)] {
    self->boards_->copy_own();
    if (self->finalize_) self->finalize_->come(of, sequence);
  });
}

void ProcessMembership::on_all_in_finalize() {
  hub_.loop().cancel(std::exchange(mend_timer_, 0));
  events_.clear();
  member_table_->notify();
}

void ProcessMembership::say_all_goodbyes() {
  if (!member_table_) return;
  std::vector<MemberEvent> goodbyes;
  for (const Rank rank : present_ranks_)
    if (member_table_->liveness(rank) == Liveness::kAlive) goodbyes.push_back(goodbye_of(rank, 0, false));
  send_events(goodbyes);
}

}  // namespace tutti
