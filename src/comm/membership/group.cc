#include "comm/membership/group.h"

#include <algorithm>
#include <utility>

#include "comm/membership/host.h"
#include "comm/membership/hub.h"
#include "comm/membership/unique_id.h"
#include "core/log.h"

namespace tutti {
namespace {

/// Connections that a process makes at a time in a join: of hundreds of processes that begin at once, each has its
/// handshakes done within their time.
constexpr std::size_t kDialsAtOnce = 8;
constexpr std::size_t kTableLimit = 64 * 1024 * 1024;
constexpr std::size_t kControlLimit = 64 * 1024;

std::string name_of(const std::vector<Rank>& ranks, const Member& first) {
  return fmt::format("{} ({})", text_of(ranks), describe(first));
}

}  // namespace

Group::Group(Hub& hub, const KeyId& id, const Key& secret)
    : hub_(hub),
      id_(id),
      secret_(secret),
      connector_(make_connector()),
      events_(hub.loop(), [this](const std::vector<MemberEvent>& items) { send_events(items); }) {}

std::shared_ptr<DataConnector> Group::make_connector() {
  DataConnector::Callbacks callbacks{hub_.loop(), id_, hub_.process(), hub_.port(), {}, {}, {}, {}, {}};
  callbacks.key_for = [this](const ProcessId& to, Key* key) { return key_for(to, key); };
  callbacks.ask = [this](const ProcessId& to, const RequestDialMessage& message) {
    const auto place = order_->find(to);
    if (!place) return;
    if (const auto peer = reach(*place, nullptr)) peer->send(MessageType::kRequestDial, encode(message));
  };
  callbacks.post_cause = [this](Rank from, const FailureCause& cause) { post_cause(from, cause); };
  callbacks.in_touch = [this](const ProcessId& to) { return control_of(to) != nullptr; };
  callbacks.watches = [this](const ProcessId& to, const Connection& data) { return watches(to, data); };
  return std::make_shared<DataConnector>(std::move(callbacks));
}

const Connection* Group::control_of(const ProcessId& process) const {
  const auto found = peers_.find(process);
  return found == peers_.end() ? nullptr : found->second->connection().get();
}

/// Within a host there is no link that could die.
bool Group::watches(const ProcessId& to, const Connection& data) const {
  const Connection* const control = control_of(to);
  if (to == hub_.process() || (control != nullptr && control->is_unix())) return true;
  IpAddress ends[2];
  std::uint32_t scopes[2];
  return control != nullptr && control->peer(&ends[0], &scopes[0]) && data.peer(&ends[1], &scopes[1]) &&
         ends[0] == ends[1] && scopes[0] == scopes[1];
}

Status Group::key_for(const ProcessId& process, Key* key) const {
  return hmac_sha256(secret_, {bytes_of("tutti member"), process}, key);
}

Status Group::secret_of_child(const KeyId& nonce, Key* secret) const {
  return hmac_sha256(secret_, {bytes_of("tutti split"), nonce}, secret);
}

bool Group::add_local(const LocalRank& local, Linked linked) {
  if (member_table_ || locals_.contains(local.rank)) return false;
  if (locals_.empty()) {
    reconnect_seconds_ = local.reconnect_seconds;
    tls_ = local.tls;
    tcp_ = local.tcp;
    mesh_ = local.mesh;
    host_id_ = local.host_id;
  }
  locals_[local.rank] = std::move(linked);
  return true;
}

void Group::remove_local(Rank rank) {
  locals_.erase(rank);
  connector_->remove_local(rank);
  if (locals_.empty()) close();
}

void Group::close() {
  const auto self = shared_from_this();
  hub_.loop().cancel(mend_timer_);
  events_.flush();
  connector_->close();
  for (auto& [process, peer] : peers_) peer->close();
  for (auto& [process, connection] : early_) connection->close();
  for (auto& [raw, connection] : unintroduced_) connection->close();
  peers_.clear();
  to_dial_.clear();
  early_.clear();
  unintroduced_.clear();
  segments_.clear();
  {
    const MutexLock lock(send_mutex_);
    senders_.clear();
  }
  hub_.drop_group(id_);
}

Status Group::follow(const PlaceMessage& message) {
  if (member_table_ || !peers_.empty())
    return fail(Code::kRemoteError, "the root says twice where the table comes from");
  const Member& parent = message.parent;
  if (parent.process == hub_.process()) return fail(Code::kRemoteError, "a process is to wait for itself");
  const auto peer = make_peer(parent, {parent.rank}, true);
  peers_[parent.process] = peer;
  peer->connect();
  return {};
}

Status Group::begin(ByteView data) {
  TableMessage table;
  TUTTI_TRY(decode(data, &table));
  if (member_table_) return fail(Code::kRemoteError, "a second table");
  UniqueId own;
  own.secret = secret_;
  own.nonce = id_;
  std::uint64_t comm_id = 0;
  TUTTI_TRY(own.comm_id(&comm_id));
  if (table.comm_id != comm_id) return fail(Code::kRemoteError, "the table of another communicator");
  auto order = std::make_unique<ProcessOrder>(table.members, mesh_);
  const auto self = order->find(hub_.process());
  for (const auto& [rank, linked] : locals_)
    if (!self || static_cast<std::size_t>(rank.value) >= table.members.size() ||
        table.members[static_cast<std::size_t>(rank.value)].process != hub_.process())
      return fail(Code::kInternalError, "rank {} is not where the root says it is", rank.value);
  for (const auto& [process, peer] : peers_)  // the parent, if the root has told the truth
    if (order->find(process) != order->parent(*self)) return fail(Code::kRemoteError, "a table from somebody else");
  table_.assign(data.begin(), data.end());
  segments_.resize(table.members.size());
  self_ = *self;
  order_ = std::move(order);
  member_table_ = std::make_shared<MemberTable>(std::move(table));
  boards_ = std::make_unique<BoardExchange>(member_table_->ranks());
  for (const auto& [rank, linked] : locals_) here_.push_back(rank);
  connector_->open(member_table_, here_, reconnect_seconds_, tls_);
  const auto self_kept = shared_from_this();  // each step may end the join of the last rank here
  make_peers();
  if (!finished_) find_memory();
  if (!finished_) check_linked();
  return {};
}

/// Of each pair of neighbours the later one dials. The parent is one of them, and connected.
void Group::make_peers() {
  for (const std::size_t place : order_->neighbours(self_)) {
    const auto found = peers_.find((*order_)[place].process);
    if (found == peers_.end()) {
      peers_[(*order_)[place].process] = make_peer_at(place, place < self_);
    } else {
      const Member& first = member_table_->member((*order_)[place].ranks.front());
      found->second->set_ranks((*order_)[place].ranks, name_of((*order_)[place].ranks, first));
    }
  }
  unlinked_ = peers_.size();
  // In the order of random numbers, so that not all begin with the same one.
  for (const auto& [process, peer] : peers_)
    if (peer->dials() && !peer->connection()) to_dial_.push_back(peer);
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

std::shared_ptr<PeerProcess> Group::make_peer(const Member& first, const std::vector<Rank>& ranks, bool dials) {
  PeerProcess::Place place{hub_.loop(), id_,   {}, hub_.process(),    first.process, ranks, name_of(ranks, first), {},
                           dials,       false, {}, reconnect_seconds_};
  if (first.host_id == host_id_) place.targets.push_back(DialTarget{first.socket_name, {}, 0});
  for (DialTarget& target : tcp_targets(first.addresses, first.port, tls_)) place.targets.push_back(std::move(target));
  if (const Status status = key_for(first.process, &place.key); !status.ok()) finish_linking(status);
  place.late = finished_;
  if (order_) place.senior = self_ > order_->find(first.process).value_or(0);
  return std::make_shared<PeerProcess>(*this, std::move(place));
}

std::shared_ptr<PeerProcess> Group::make_peer_at(std::size_t place, bool dials) {
  const std::vector<Rank>& ranks = (*order_)[place].ranks;
  return make_peer(member_table_->member(ranks.front()), ranks, dials);
}

/// A process that this one may not be connected to yet: then it dials. `allowance`: how many more may be dialled; with
/// none left the answer is nullptr.
std::shared_ptr<PeerProcess> Group::reach(std::size_t place, int* allowance) {
  if (place == self_ || locals_.empty()) return nullptr;
  std::shared_ptr<PeerProcess>& peer = peers_[(*order_)[place].process];
  if (peer) return peer;
  if (allowance != nullptr && --*allowance < 0) {
    peers_.erase((*order_)[place].process);
    return nullptr;
  }
  peer = make_peer_at(place, true);
  const auto made = peer;
  made->connect();
  return made;
}

bool Group::expects_tcp() const {
  if (!let_go_ || !member_table_ || tcp_ || memory_ != Memory::kMapped) return true;
  const std::vector<Member>& members = member_table_->members();
  return std::any_of(members.begin(), members.end(),
                     [this](const Member& member) { return member.host_id != host_id_ || member.segment_bytes == 0; });
}

std::string Group::unreached() const {
  std::string text;
  for (const auto& [process, peer] : peers_) {
    if (finished_ || peer->linked) continue;
    const std::string tried = peer->progress();
    const std::string how = !tried.empty()       ? "cannot be reached: " + tried
                            : peer->connection() ? "is connected, but silent"
                                                 : "has not connected";
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", peer->name(), how);
  }
  return text;
}

void Group::serve(const std::shared_ptr<Connection>& connection) {
  Connection* const raw = connection.get();
  unintroduced_[raw] = connection;
  const auto weak = weak_from_this();
  ConnectionEvents events;
  events.on_message = [weak, raw](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    return self ? self->on_stranger_message(raw, type, payload) : Status();
  };
  events.on_close = [weak, raw](const Status&) {
    if (const auto self = weak.lock()) self->unintroduced_.erase(raw);
  };
  connection->set_events(std::move(events));
}

Status Group::on_stranger_message(Connection* from, MessageType type, ByteView payload) {
  IntroduceMessage introduce;
  if (type != MessageType::kIntroduce) return fail(Code::kRemoteError, "a process did not introduce itself");
  TUTTI_TRY(decode(payload, &introduce));
  const auto found = unintroduced_.find(from);
  const std::shared_ptr<Connection> connection = found->second;
  unintroduced_.erase(found);
  attach(introduce.process, connection);
  return {};
}

/// Until there is a table. A process makes another connection only when its last one has ended: the newest counts.
void Group::park(const ProcessId& process, const std::shared_ptr<Connection>& connection) {
  const auto there = early_.find(process);
  if (there != early_.end() && there->second->is_unix() && !connection->is_unix()) return connection->close();
  ConnectionEvents events;
  events.on_close = [weak = weak_from_this(), process, raw = connection.get()](const Status&) {
    const auto self = weak.lock();
    if (!self) return;
    const auto parked = self->early_.find(process);
    if (parked != self->early_.end() && parked->second.get() == raw) self->early_.erase(parked);
  };
  connection->set_events(std::move(events));
  const std::shared_ptr<Connection> older = std::exchange(early_[process], connection);
  if (older) older->close();
}

void Group::attach(const ProcessId& process, const std::shared_ptr<Connection>& connection) {
  if (!member_table_) {  // its table came before ours, or it waits for ours
    park(process, connection);
    return;
  }
  const auto place = order_->find(process);
  if (!place || *place == self_) return connection->close();
  std::shared_ptr<PeerProcess>& peer = peers_[process];
  if (!peer) peer = make_peer_at(*place, false);
  const auto kept = peer;
  kept->accept(connection);
}

void Group::on_connected(PeerProcess& peer, bool again) {
  if (!member_table_) return peer.connection()->set_limit(kTableLimit);  // the parent: it speaks first
  {
    const MutexLock lock(send_mutex_);
    senders_.push_back(peer.connection());
  }
  boards_->forget(peer.process());
  if (again || finished_) return send_state(peer);
  if (!peer.dials()) greet(peer);
}

// The end that was dialled speaks first: it does so when it has the table, and before that it can read nothing.
void Group::greet(PeerProcess& peer) {
  const std::size_t place = *order_->find(peer.process());
  if (order_->parent(place) == self_) peer.send(MessageType::kTable, table_);
  if (memory_ != Memory::kAwaited) send_memory(peer);
  peer.send(MessageType::kLinked, {});
}

void Group::on_disconnected(PeerProcess&) { list_senders(); }

void Group::list_senders() {
  std::vector<std::shared_ptr<Connection>> open;
  for (const auto& [process, peer] : peers_)
    if (peer->connection()) open.push_back(peer->connection());
  const MutexLock lock(send_mutex_);
  senders_ = std::move(open);
}

Status Group::on_message(PeerProcess& peer, MessageType type, ByteView payload) {
  if (!member_table_ && type != MessageType::kTable) return fail(Code::kRemoteError, "a message before the table");
  switch (type) {
    case MessageType::kTable:
      return take_table(peer, payload);
    case MessageType::kSegment:
      return take_memory(peer, payload);
    case MessageType::kLinked:
      return take_linked(peer);
    case MessageType::kMemberEvents:
      return take_events(peer, payload);
    case MessageType::kCause:
      return take_cause(peer, payload);
    case MessageType::kAskBoard:
      boards_->answer([&peer](ByteView message) { peer.send(MessageType::kBoard, message); });
      return {};
    case MessageType::kBoard:
      return boards_->take(peer.process(), peer.ranks(), payload);
    case MessageType::kRequestDial:
      return connector_->take_ask(peer.process(), payload);
    default:
      return fail(Code::kRemoteError, "a message that a control connection does not carry");
  }
}

Status Group::take_table(PeerProcess& peer, ByteView payload) {
  const auto kept = peer.shared_from_this();
  const Status status = begin(payload);
  if (!status.ok()) {
    finish_linking(status);
    return status;
  }
  kept->connection()->set_limit(kControlLimit);
  on_connected(*kept, false);
  return {};
}

HostMemory Group::host_layout() const { return HostMemory::of_host(member_table_->members(), *order_, self_); }

/// The first process of a host makes its memory, the others wait for it.
void Group::find_memory() {
  if (host_layout().size().value == 0) return have_memory(Memory::kMapped, nullptr);
  if (order_->host_parent(self_)) return;
  std::shared_ptr<Segment> whole;
  const Status status = Segment::create(host_layout().size(), &whole);
  if (!status.ok()) return finish_linking(status);
  have_memory(Memory::kMapped, std::move(whole));
}

Status Group::take_memory(const PeerProcess& peer, ByteView payload) {
  SegmentMessage message;
  TUTTI_TRY(decode(payload, &message));
  Descriptor descriptor = peer.connection()->take_descriptor();
  const HostMemory layout = host_layout();
  const bool expected = memory_ == Memory::kAwaited && order_->find(peer.process()) == order_->host_parent(self_);
  if (!expected || descriptor.valid() != (message.bytes != 0))
    return fail(Code::kRemoteError, "memory that was not announced");
  if (message.bytes == 0) {
    have_memory(Memory::kApart, nullptr);
    return {};
  }
  if (message.bytes != layout.size().value) return fail(Code::kRemoteError, "the memory of other ranks");
  std::shared_ptr<Segment> whole;
  const Status status = Segment::adopt(descriptor.release(), layout.size(), &whole);
  if (!status.ok()) {
    finish_linking(fail(status.code(), "the memory of this host, from {}: {}", peer.name(), status.text()));
    return {};
  }
  have_memory(Memory::kMapped, std::move(whole));
  return {};
}

/// Without the host's memory the ranks of this process still share some.
void Group::have_memory(Memory outcome, std::shared_ptr<Segment> whole) {
  const bool apart = outcome == Memory::kApart;
  const HostMemory layout = apart ? HostMemory(member_table_->members(), here_) : host_layout();
  if (apart) {
    const Status status = Segment::create(layout.size(), &whole);
    if (!status.ok()) return finish_linking(status);
  }
  if (whole) layout.hand_out(whole, &segments_);
  memory_ = outcome;
  if (!apart) whole_ = std::move(whole);
  for (const auto& [process, peer] : peers_)
    if (peer->connection() && !peer->dials()) send_memory(*peer);
  check_linked();
}

/// To those who have it from here. A descriptor does not travel over TCP.
void Group::send_memory(PeerProcess& peer) {
  const bool awaited = order_->host_parent(*order_->find(peer.process())) == self_ && host_layout().size().value != 0;
  if (!awaited) return;
  const std::shared_ptr<Connection>& connection = peer.connection();
  if (whole_ && connection->is_unix()) {
    connection->send(MessageType::kSegment, encode(SegmentMessage{whole_->size().value}), whole_->descriptor(), whole_);
  } else {
    connection->send(MessageType::kSegment, encode(SegmentMessage{}));
  }
}

Status Group::take_linked(PeerProcess& peer) {
  if (std::exchange(peer.linked, true) || finished_) return {};  // back after a loss, or late
  --unlinked_;
  if (peer.dials()) {
    peer.send(MessageType::kLinked, {});
    dial_next();
  }
  check_linked();
  return {};
}

void Group::check_linked() {
  if (unlinked_ == 0 && memory_ != Memory::kAwaited) finish_linking(Status());
}

void Group::finish_linking(const Status& why) {
  if (finished_) return;
  std::vector<Linked> waiting;
  waiting.reserve(locals_.size());  // what can throw comes before anything is changed
  finished_ = true;
  table_ = {};
  whole_.reset();
  for (auto& [rank, linked] : locals_)
    if (linked) waiting.push_back(std::exchange(linked, nullptr));
  for (const Linked& linked : waiting) linked(why);
}

void Group::on_unreachable(PeerProcess&, const Status& why) { finish_linking(why); }

}  // namespace tutti
