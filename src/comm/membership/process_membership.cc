#include "comm/membership/process_membership.h"

#include <algorithm>
#include <utility>

#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"

namespace tutti {

ProcessMembership::ProcessMembership(Hub& hub, const KeyId& id, const Key& secret)
    : hub_(hub),
      id_(id),
      secret_(secret),
      connections_(*this, hub.loop(), id, secret, hub.process()),
      connector_(make_connector()),
      events_(hub.loop(), [this](const std::vector<MemberEvent>& items) { send_events(items); }),
      linker_(std::make_shared<MembershipLinker>(*this)) {}

std::shared_ptr<DataConnector> ProcessMembership::make_connector() {
  return std::make_shared<DataConnector>(DataConnector::Callbacks{
      .loop = hub_.loop(),
      .id = id_,
      .process = hub_.process(),
      .port = hub_.port(),
      .key_for = [this](const ProcessId& to, Key* key) { return key_for(to, key); },
      .ask =
          [this](const ProcessId& to, const RequestDialMessage& message) {
            const auto place = order().find(to);
            if (!place) return;
            if (const auto peer = connections_.reach(*place, nullptr))
              peer->send(MessageType::kRequestDial, encode(message));
          },
      .post_cause =
          [this](Rank from, const FailureCause& cause) {
            if (!all_have_come()) post_cause(from, cause);  // else nobody waits for data
          },
      .in_touch = [this](const ProcessId& to) { return connections_.connection_to(to) != nullptr; },
      .watches = [this](const ProcessId& to, const Connection& data) { return connections_.watches(to, data); }});
}

Status ProcessMembership::comm_id(std::uint64_t* comm_id) const {
  UniqueId own;
  own.secret = secret_;
  own.nonce = id_;
  return own.comm_id(comm_id);
}

Status ProcessMembership::secret_of_child(const KeyId& nonce, Key* secret) const {
  return hmac_sha256(secret_, {bytes_of("tutti split"), nonce}, secret);
}

std::shared_ptr<MembershipLinker> ProcessMembership::add_local(const LocalRank& local,
                                                               MembershipLinker::Linked linked) {
  if (member_table_ || present_ranks_.contains(local.rank)) return nullptr;
  if (present_ranks_.empty()) {
    connections_.set_terms(local.terms);
    tcp_ = local.tcp;
  }
  const auto added = present_ranks_.insert(local.rank).first;
  try {
    linker_->add_local(local.rank, std::move(linked));
  } catch (...) {  // nothing else would remove the rank again, or what `linked` holds
    present_ranks_.erase(added);
    throw;
  }
  return linker_;
}

void ProcessMembership::remove_local(Rank rank) {
  present_ranks_.erase(rank);
  if (linker_) linker_->remove_local(rank);
  connector_->remove_local(rank);
  if (listener_) listener_->on_leave(rank);
  if (present_ranks_.empty()) close();
}

void ProcessMembership::close() {
  const auto self = shared_from_this();
  listener_.reset();
  hub_.loop().cancel(mend_timer_);
  if (finalize_) finalize_->close();
  events_.flush();
  connector_->close();
  connections_.close();
  if (linker_) linker_->close();
  for (auto& [raw, connection] : unintroduced_) connection->close();
  unintroduced_.clear();
  segments_ = {};
  hub_.drop_membership(id_);
}

void ProcessMembership::open(const std::shared_ptr<MemberTable>& members, std::unique_ptr<ProcessOrder> order,
                             std::size_t self) {
  local_ranks_.assign(present_ranks_.begin(), present_ranks_.end());
  boards_ = std::make_unique<BoardExchange>(members->ranks());
  connections_.open(members, std::move(order), self);
  member_table_ = members;
  if (!this->order().is_mesh())
    finalize_ = std::make_unique<FinalizeExchange>(
        hub_.loop(), connections_, *boards_, *member_table_,
        FinalizeExchange::Callbacks{[this](const std::vector<MemberEvent>& events) { send_events(events); },
                                    [this] { on_all_in_finalize(); }});
  connector_->open(member_table_, local_ranks_, connections_.terms().reconnect_seconds, tls());
}

void ProcessMembership::set_linked(RankSegments segments, bool maps_host) {
  segments_ = std::move(segments);
  maps_host_ = maps_host;
  linker_.reset();
}

bool ProcessMembership::expects_tcp() const {
  if (!let_go_ || !member_table_ || tcp_ || !maps_host_) return true;
  const MemberList& members = member_table_->members();
  const std::string& host_id = connections_.terms().host_id;
  for (Rank rank{0}; rank.value < member_table_->ranks(); ++rank)
    if (members.host(rank).id != host_id || members.segment_bytes(rank) == 0) return true;
  return false;
}

void ProcessMembership::fail_join(const Status& why) {
  if (linker_) linker_->fail_local(why);
}

void ProcessMembership::serve(const std::shared_ptr<Connection>& connection) {
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

Status ProcessMembership::on_stranger_message(Connection* from, MessageType type, ByteView payload) {
  IntroduceMessage introduce;
  if (type != MessageType::kIntroduce) return fail(Code::kRemoteError, "a process did not introduce itself");
  TUTTI_TRY(decode(payload, &introduce));
  const auto found = unintroduced_.find(from);
  const std::shared_ptr<Connection> connection = found->second;
  unintroduced_.erase(found);
  attach(introduce.process, connection);
  return {};
}

void ProcessMembership::attach(const ProcessId& process, const std::shared_ptr<Connection>& connection) {
  if (!member_table_) return linker_->park(process, connection);  // it has the table already, or waits for it from here
  const auto place = order().find(process);
  if (!place || *place == connections_.self()) return connection->close();
  auto peer = connections_.find(process);
  if (!peer) peer = connections_.add_at(*place, false);
  peer->accept(connection);
}

void ProcessMembership::on_connected(PeerProcess& peer, bool again) {
  if (!member_table_) return linker_->expect_table(peer);
  connections_.add_sender(peer.connection());
  boards_->owes_nothing(peer.ranks());
  if (is_linking() && !again) {
    if (!peer.dials()) linker_->greet(peer);
    return;
  }
  send_state(peer);
  if (listener_) listener_->on_connected(*order().find(peer.process()));
}

void ProcessMembership::on_disconnected(PeerProcess&) { connections_.list_senders(); }

void ProcessMembership::on_unreachable(PeerProcess&, const Status& why) {
  if (linker_) linker_->finish(why);
}

Status ProcessMembership::on_message(PeerProcess& peer, MessageType type, ByteView payload) {
  if (!member_table_ && type != MessageType::kTable) return fail(Code::kRemoteError, "a message before the table");
  switch (type) {
    case MessageType::kTable:
    case MessageType::kSegment:
    case MessageType::kLinked:
      return on_linker_message(peer, type, payload);
    case MessageType::kMemberEvents:
      return take_events(peer, payload);
    case MessageType::kFinishing:
      if (!finalize_)
        return fail(Code::kRemoteError, "another process tells of all ranks, though each tells of its own");
      return finalize_->take(peer, payload);
    case MessageType::kCause:
      return take_cause(peer, payload);
    case MessageType::kAskBoard:
      boards_->answer(local_ranks_, [&peer](ByteView message) { peer.send(MessageType::kBoard, message); });
      return {};
    case MessageType::kBoard:
      return boards_->take(peer.ranks(), payload);
    case MessageType::kRequestDial:
      return connector_->take_ask(peer.process(), payload);
    case MessageType::kShrinkReport:
    case MessageType::kShrinkOrder:
      if (is_linking() || !listener_) return fail(Code::kRemoteError, "a shrink during the join");
      return std::shared_ptr(listener_)->on_message(*order().find(peer.process()), type, payload);
    default:
      return fail(Code::kRemoteError, "a message that a control connection does not carry");
  }
}

/// Once the group is linked, kLinked comes only on connections that were made later, or again.
Status ProcessMembership::on_linker_message(PeerProcess& peer, MessageType type, ByteView payload) {
  const auto self = shared_from_this();  // the end of a join may end the membership
  if (const auto linker = linker_) return linker->on_message(peer, type, payload);
  if (type != MessageType::kLinked) return fail(Code::kRemoteError, "a message of the join, which is over");
  peer.linked = true;
  return {};
}

}  // namespace tutti
