#include "comm/group.h"

#include <algorithm>
#include <utility>

#include "comm/hub.h"
#include "core/log.h"

namespace tutti {
namespace {

/// Connections that a process makes at a time in a join: of hundreds of processes that begin at once, each has its
/// handshakes done within their time.
constexpr std::size_t kDialsAtOnce = 8;

}  // namespace

Group::Group(Hub& hub, const KeyId& id, const Key& secret) : hub_(hub), id_(id), secret_(secret), desk_(make_desk()) {}

std::shared_ptr<StreamDesk> Group::make_desk() {
  StreamDesk::Office office{hub_.loop(), id_, hub_.process(), hub_.port(), {}, {}, {}};
  office.key_for = [this](const ProcessId& to, Key* key) { return key_for(to, key); };
  office.ask = [this](const ProcessId& to, const AskLineMessage& message) {
    if (const auto found = peers_.find(to); found != peers_.end())
      found->second->send(MessageType::kAskLine, encode(message));
  };
  office.post_cause = [this](Rank from, const Cause& cause) { post_cause(from, cause); };
  return std::make_shared<StreamDesk>(std::move(office));
}

Status Group::key_for(const ProcessId& process, Key* key) const {
  return hmac_sha256(secret_, {bytes_of("tutti member"), process}, key);
}

bool Group::add_local(const JoinRequest& request, Linked linked) {
  if (roster_ || locals_.contains(request.rank)) return false;
  if (locals_.empty()) {
    reconnect_seconds_ = request.settings.reconnect_seconds;
    tls_ = request.settings.tls;
  }
  locals_[request.rank] = Local{request.segment, std::move(linked)};
  return true;
}

void Group::remove_local(Rank rank) {
  locals_.erase(rank);
  desk_->remove_local(rank);
  if (locals_.empty()) close();
}

void Group::close() {
  const auto self = shared_from_this();
  desk_->close();
  for (auto& [process, peer] : peers_) peer->close();
  for (auto& [process, connection] : early_) connection->close();
  for (auto& [raw, connection] : strangers_) connection->close();
  peers_.clear();
  to_dial_.clear();
  early_.clear();
  strangers_.clear();
  segments_.clear();
  {
    const std::lock_guard lock(send_mutex_);
    senders_.clear();
  }
  hub_.drop_group(id_);
}

void Group::begin(const TableMessage& table) {
  if (roster_) return;  // another local rank's came first
  roster_ = std::make_shared<Roster>(table);
  boards_ = std::make_unique<BoardExchange>(roster_->ranks());
  segments_.resize(table.members.size());
  for (auto& [rank, local] : locals_) {
    if (rank.value >= roster_->ranks() || roster_->member(rank).process != hub_.process())
      return finish_linking(fail(Code::kInternalError, "rank {} is not where the root says it is", rank.value));
    segments_[static_cast<std::size_t>(rank.value)] = local.segment;
  }
  for (const auto& [rank, local] : locals_) here_.push_back(rank);
  desk_->open(roster_, here_, reconnect_seconds_, tls_);
  make_peers();
  check_linked();
}

void Group::make_peers() {
  std::map<ProcessId, std::vector<Rank>> ranks;
  std::vector<ProcessId> order;  // by lowest rank: of each pair the later one dials
  for (std::int32_t i = 0; i < roster_->ranks(); ++i) {
    std::vector<Rank>& those = ranks[roster_->member(Rank{i}).process];
    if (those.empty()) order.push_back(roster_->member(Rank{i}).process);
    those.push_back(Rank{i});
  }
  bool dials = true;
  for (const ProcessId& process : order) {
    if (process == hub_.process()) {
      dials = false;
    } else {
      peers_[process] = make_peer(ranks.at(process), dials);
    }
  }
  unlinked_ = peers_.size();
  // In the order of random numbers, so that not all begin with the same one.
  for (const auto& [process, peer] : peers_)
    if (peer->dials()) to_dial_.push_back(peer);
  for (std::size_t i = 0; i < kDialsAtOnce; ++i) dial_next();
  const auto early = std::move(early_);
  for (const auto& [process, connection] : early) attach(process, connection);
}

void Group::dial_next() {
  if (to_dial_.empty()) return;
  const std::shared_ptr<PeerProcess> peer = to_dial_.back();
  to_dial_.pop_back();
  peer->connect();
}

std::shared_ptr<PeerProcess> Group::make_peer(const std::vector<Rank>& ranks, bool dials) {
  const Member& first = roster_->member(ranks.front());
  PeerProcess::Place place{hub_.loop(), id_, {}, hub_.process(), first.process,
                           ranks,       {},  {}, dials,          reconnect_seconds_};
  place.name = fmt::format("{} ({})", text_of(ranks), describe(first));
  if (first.host_id == roster_->member(here_.front()).host_id)
    place.targets.push_back(DialTarget{first.socket_name, {}, 0});
  for (DialTarget& target : tcp_targets(first.addresses, first.port, tls_)) place.targets.push_back(std::move(target));
  if (const Status status = key_for(first.process, &place.key); !status.ok()) finish_linking(status);
  return std::make_shared<PeerProcess>(*this, std::move(place));
}

std::string Group::unreached() const {
  std::string text;
  for (const auto& [process, peer] : peers_) {
    const std::string tried = peer->progress();
    if (!tried.empty() && !finished_)
      text += fmt::format("{}{} cannot be reached: {}", text.empty() ? "" : "; ", peer->name(), tried);
  }
  return text;
}

bool Group::maps_host_of(Rank rank) const {
  const std::string& host = roster_->member(rank).host_id;
  for (std::int32_t i = 0; i < roster_->ranks(); ++i) {
    const Member& member = roster_->member(Rank{i});
    if (member.host_id == host && member.segment_bytes != 0 && !segments_[static_cast<std::size_t>(i)]) return false;
  }
  return true;
}

void Group::serve(const std::shared_ptr<Connection>& connection) {
  Connection* const raw = connection.get();
  strangers_[raw] = connection;
  const auto weak = weak_from_this();
  ConnectionEvents events;
  events.on_message = [weak, raw](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    return self ? self->on_stranger_message(raw, type, payload) : Status();
  };
  events.on_close = [weak, raw](const Status&) {
    if (const auto self = weak.lock()) self->strangers_.erase(raw);
  };
  connection->set_events(std::move(events));
}

Status Group::on_stranger_message(Connection* from, MessageType type, ByteView payload) {
  IntroduceMessage introduce;
  if (type != MessageType::kIntroduce) return fail(Code::kRemoteError, "a process did not introduce itself");
  TUTTI_TRY(decode(payload, &introduce));
  const auto found = strangers_.find(from);
  const std::shared_ptr<Connection> connection = found->second;
  strangers_.erase(found);
  attach(introduce.process, connection);
  return {};
}

void Group::attach(const ProcessId& process, const std::shared_ptr<Connection>& connection) {
  if (!roster_) {  // its table came before ours
    connection->set_events({});
    if (!early_.emplace(process, connection).second) connection->close();
    return;
  }
  const auto found = peers_.find(process);
  if (found == peers_.end()) return connection->close();
  found->second->adopt(connection);
}

void Group::on_connected(PeerProcess& peer, bool again) {
  {
    const std::lock_guard lock(send_mutex_);
    senders_.push_back(peer.connection());
  }
  boards_->forget(peer.process());
  if (again) return send_state(peer);
  if (!peer.dials()) send_segments(peer);
}

// The end that was dialled speaks first: it does so when it has the table, and before that it can read nothing.
void Group::send_segments(PeerProcess& peer) {
  const std::shared_ptr<Connection> connection = peer.connection();
  for (const auto& [rank, local] : locals_)
    if (connection->is_unix() && local.segment)
      connection->send(MessageType::kSegment, encode(SegmentMessage{rank, local.segment->size().value}),
                       local.segment->descriptor(), local.segment);
  connection->send(MessageType::kLinked, {});
}

/// The first cause, if a rank of this process posted it: others are not believed about it.
void Group::send_cause(Connection& connection) const {
  const Cause cause = roster_->cause();
  const bool ours = std::find(here_.begin(), here_.end(), cause.from) != here_.end();
  if (cause.code != Code::kOk && ours) connection.send(MessageType::kCause, encode(cause));
}

/// All that the peer may not have heard while the connection was down; what it has heard it hears twice.
void Group::send_state(PeerProcess& peer) {
  peer.send(MessageType::kLinked, {});  // there is always something to be heard
  send_cause(*peer.connection());
  for (const Rank rank : here_) {
    boards_->publish(rank, [&peer](ByteView message) { peer.send(MessageType::kBoard, message); });
    const Life life = roster_->life(rank);
    if (life == Life::kAlive) continue;
    const MessageType type = life == Life::kLeft ? MessageType::kGoodbye : MessageType::kGone;
    peer.send(type, encode(LeaveMessage{rank, roster_->last_sequence(rank)}));
  }
  desk_->ask_again(peer.process());
}

/// For the communicator's ranks there it is as if those here were dead, and as lasting.
void Group::on_late_return(Connection& connection) {
  send_cause(connection);
  for (const Rank rank : here_) connection.send(MessageType::kGone, encode(LeaveMessage{rank, 0}));
}

void Group::on_disconnected(PeerProcess&) { list_senders(); }

void Group::list_senders() {
  std::vector<std::shared_ptr<Connection>> open;
  for (const auto& [process, peer] : peers_)
    if (peer->connection()) open.push_back(peer->connection());
  const std::lock_guard lock(send_mutex_);
  senders_ = std::move(open);
}

Status Group::on_message(PeerProcess& peer, MessageType type, ByteView payload) {
  switch (type) {
    case MessageType::kSegment:
      return take_segment(peer, payload);
    case MessageType::kLinked:
      return take_linked(peer);
    case MessageType::kGoodbye:
    case MessageType::kGone:
      return take_leave(peer, type, payload);
    case MessageType::kCause:
      return take_cause(peer, payload);
    case MessageType::kAskBoard:
      boards_->answer([&peer](ByteView message) { peer.send(MessageType::kBoard, message); });
      return {};
    case MessageType::kBoard:
      return boards_->take(peer.process(), peer.ranks(), payload);
    case MessageType::kAskLine:
      return desk_->take_ask(peer.process(), payload);
    default:
      return fail(Code::kRemoteError, "a message that a control connection does not carry");
  }
}

Status Group::take_segment(const PeerProcess& peer, ByteView payload) {
  SegmentMessage message;
  TUTTI_TRY(decode(payload, &message));
  Descriptor descriptor = peer.connection()->take_descriptor();
  const bool known = std::find(peer.ranks().begin(), peer.ranks().end(), message.rank) != peer.ranks().end();
  if (!known || !descriptor.valid()) return fail(Code::kRemoteError, "a segment of somebody else");
  const Member& member = roster_->member(message.rank);
  std::shared_ptr<Segment>& segment = segments_[static_cast<std::size_t>(message.rank.value)];
  if (segment || member.segment_bytes != message.bytes)
    return fail(Code::kRemoteError, "a segment that was not announced");
  const Status status = Segment::adopt(descriptor.release(), Bytes{message.bytes}, &segment);
  if (status.ok()) return {};
  finish_linking(fail(status.code(), "rank {}: {}", message.rank.value, status.text()));
  return {};
}

Status Group::take_linked(PeerProcess& peer) {
  if (peer.linked) return {};  // back after a loss
  for (const Rank rank : peer.ranks()) {
    const bool expected = peer.connection()->is_unix() && roster_->member(rank).segment_bytes != 0;
    if (expected && !segments_[static_cast<std::size_t>(rank.value)])
      return fail(Code::kRemoteError, "the segment of rank {} did not come", rank.value);
  }
  peer.linked = true;
  --unlinked_;
  if (peer.dials()) {
    send_segments(peer);
    dial_next();
  }
  check_linked();
  return {};
}

void Group::check_linked() {
  if (unlinked_ == 0) finish_linking(Status());
}

void Group::finish_linking(const Status& why) {
  if (finished_) return;
  finished_ = true;
  std::vector<Linked> waiting;
  for (auto& [rank, local] : locals_)
    if (local.linked) waiting.push_back(std::exchange(local.linked, nullptr));
  for (const Linked& linked : waiting) linked(why);
}

void Group::on_unreachable(PeerProcess&, const Status& why) { finish_linking(why); }

void Group::on_death(PeerProcess& peer, const std::string& note) {
  if (!finished_) return finish_linking(fail(Code::kRemoteError, "{} ended while joining", peer.name()));
  bool changed = false;
  for (const Rank rank : peer.ranks()) changed = roster_->end_life(rank, Life::kDead, 0, note) || changed;
  if (changed) roster_->notify();
}

bool Group::lives(const PeerProcess& peer) const {
  return std::any_of(peer.ranks().begin(), peer.ranks().end(),
                     [this](Rank rank) { return roster_->life(rank) == Life::kAlive; });
}

Status Group::take_leave(const PeerProcess& peer, MessageType type, ByteView payload) {
  LeaveMessage message;
  TUTTI_TRY(decode(payload, &message));
  if (std::find(peer.ranks().begin(), peer.ranks().end(), message.rank) == peer.ranks().end())
    return fail(Code::kRemoteError, "a goodbye for somebody else");
  const Life life = type == MessageType::kGoodbye ? Life::kLeft : Life::kDead;
  if (roster_->end_life(message.rank, life, message.sequence)) roster_->notify();
  return {};
}

Status Group::take_cause(const PeerProcess& peer, ByteView payload) {
  Cause cause;
  TUTTI_TRY(decode(payload, &cause));
  if (std::find(peer.ranks().begin(), peer.ranks().end(), cause.from) == peer.ranks().end())
    return fail(Code::kRemoteError, "a cause from somebody else");
  if (cause.culprit.value < 0 || cause.culprit.value >= roster_->ranks()) cause.culprit = kNoRank;
  if (roster_->set_cause(cause)) roster_->notify();
  return {};
}

void Group::send_to_peers(MessageType type, ByteView payload) {
  const std::lock_guard lock(send_mutex_);
  for (const auto& connection : senders_) connection->send(type, payload);
}

void Group::post_cause(Rank from, const Cause& cause) {
  Cause sent = cause;
  sent.from = from;
  if (sent.code == Code::kOk) sent.code = Code::kInternalError;
  const bool first = roster_->set_cause(sent);
  send_to_peers(MessageType::kCause, encode(sent));
  if (first) roster_->notify();
}

void Group::say_goodbye(Rank from, std::uint64_t last_sequence) {
  if (!roster_->end_life(from, Life::kLeft, last_sequence)) return;
  send_to_peers(MessageType::kGoodbye, encode(LeaveMessage{from, last_sequence}));
  roster_->notify();
}

void Group::abandon(Rank from) {
  if (roster_->life(from) != Life::kAlive) return;
  // A rank that gives up because of a cause tells that one: its word may reach a peer before the first messenger's
  // does.
  Cause cause = roster_->cause();
  if (cause.code == Code::kOk) {
    const std::string who = describe(roster_->member(from));
    cause =
        Cause{Code::kRemoteError, from, from, fmt::format("rank {} ({}) gave the communicator up", from.value, who)};
  }
  post_cause(from, cause);
  if (!roster_->end_life(from, Life::kDead, 0)) return;
  send_to_peers(MessageType::kGone, encode(LeaveMessage{from, 0}));
  roster_->notify();
}

void Group::ask_boards(const std::vector<Rank>& of) {
  std::set<ProcessId> asked;
  for (const Rank rank : of)
    if (roster_->life(rank) == Life::kAlive) asked.insert(roster_->member(rank).process);
  for (const ProcessId& process : asked) {
    if (process == hub_.process()) boards_->copy_own();
    const auto found = peers_.find(process);
    if (found == peers_.end() || !found->second->connection()) continue;
    if (boards_->may_ask(process, found->second->ranks(), Clock::now()))
      found->second->send(MessageType::kAskBoard, {});
  }
}

void Group::publish_board(Rank of) {
  const bool known = boards_->publish(of, [this](ByteView message) { send_to_peers(MessageType::kBoard, message); });
  if (known && here_.size() > 1) hub_.loop().post([self = shared_from_this()] { self->boards_->copy_own(); });
}

void Group::say_all_goodbyes() {
  if (!roster_) return;
  for (const auto& [rank, local] : locals_)
    if (roster_->life(rank) == Life::kAlive) send_to_peers(MessageType::kGoodbye, encode(LeaveMessage{rank, 0}));
}

}  // namespace tutti
