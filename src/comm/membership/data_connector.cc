#include "comm/membership/data_connector.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/messages/messages.h"
#include "core/log.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kStreamRetry{100};
constexpr std::chrono::milliseconds kSilentRetry{1000};
constexpr std::chrono::seconds kLongestAnswer{10};
/// A single try gets so much time, however short the timeout is.
constexpr std::chrono::seconds kLeastTime{1};
/// How many more tries follow after the timeout, if each is answered, but not with a stream.
constexpr int kMostLateTries = 3;

IpAddress loopback(std::uint8_t family) {
  IpAddress address;
  address.family = family;
  if (family == 4) {
    address.bytes[0] = std::byte{127};
    address.bytes[3] = std::byte{1};
  } else {
    address.bytes[15] = std::byte{1};
  }
  return address;
}

}  // namespace

void DataConnector::open(std::shared_ptr<MemberTable> member_table, const std::vector<Rank>& local_ranks,
                         double timeout, bool tls) {
  member_table_ = std::move(member_table);
  tls_ = tls;
  timeout_ = timeout;
  for (const Rank rank : local_ranks) accepted_[rank] = std::make_shared<AcceptedStreams>();
}

void DataConnector::drop(End& end) {
  if (end.dialer) end.dialer->cancel();
  if (end.connection) end.connection->close();
  callbacks_.loop.cancel(end.timer);
  end.dialer.reset();
  end.connection.reset();
  end.timer = 0;
  end.wanted = false;
}

void DataConnector::remove_local(Rank rank) {
  accepted_.erase(rank);
  for (auto& [id, end] : ends_)
    if (id.local == rank) drop(end);
  std::erase_if(ends_, [rank](const auto& item) { return item.first.local == rank; });
}

void DataConnector::close() {
  for (auto& [id, end] : ends_) drop(end);
  for (const auto& [raw, connection] : unnamed_) connection->close();
  ends_.clear();
  unnamed_.clear();
  accepted_.clear();
}

std::shared_ptr<AcceptedStreams> DataConnector::accepted(Rank rank) const {
  const auto found = accepted_.find(rank);
  return found == accepted_.end() ? nullptr : found->second;
}

/// Whether a stream could still serve anybody, because both ends live.
bool DataConnector::worth_it(const DataConnectionId& id) const {
  return accepted_.contains(id.local) && member_table_->liveness(id.local) == Liveness::kAlive &&
         member_table_->liveness(id.peer) == Liveness::kAlive;
}

void DataConnector::want(const DataConnectionId& id, std::uint32_t taken) {
  const bool valid = id.peer.value >= 0 && member_table_ && id.peer.value < member_table_->ranks() &&
                     id.peer != id.local && id.lane.value < kMaxLanes;
  if (!valid || !worth_it(id)) return;
  End& end = ends_[id];
  if (end.wanted || end.streams > taken) return;
  if (id.local > id.peer) return begin_dial(id, end);
  end.wanted = true;
  ask(id, end);
}

void DataConnector::ask(const DataConnectionId& id, const End& end) {
  const RequestDialMessage message{id.local, id.peer, id.lane, end.streams};
  const ProcessId& process = member_table_->members().process(id.peer);
  if (process != callbacks_.process) return callbacks_.ask(process, message);
  static_cast<void>(take_ask(callbacks_.process, encode(message)));
}

void DataConnector::ask_again(const ProcessId& process) {
  for (const auto& [id, end] : ends_)
    if (end.wanted && id.local < id.peer && member_table_->members().process(id.peer) == process) ask(id, end);
}

Status DataConnector::take_ask(const ProcessId& from, ByteView payload) {
  RequestDialMessage message;
  TUTTI_TRY(decode(payload, &message));
  const bool known = message.from.value >= 0 && message.from.value < member_table_->ranks() &&
                     member_table_->members().process(message.from) == from && message.to > message.from;
  if (!known) return fail(Code::kRemoteError, "a request for a data connection of somebody else");
  const DataConnectionId id{message.to, message.from, message.lane};
  if (!worth_it(id)) return {};
  End& end = ends_[id];
  if (!end.wanted && end.streams <= message.streams) begin_dial(id, end);
  return {};
}

/// All TCP addresses of the peer, and not its unix socket, because TCP streams are wanted.
std::vector<DialTarget> DataConnector::targets_for(Rank peer) const {
  const Member member = member_table_->members()[peer];
  if (member.process != callbacks_.process) return tcp_targets(member.host->addresses, member.port, tls_);
  std::vector<IpAddress> addresses{loopback(4), loopback(6)};
  addresses.insert(addresses.end(), member.host->addresses.begin(), member.host->addresses.end());
  return tcp_targets(addresses, callbacks_.port, tls_);
}

Clock::time_point DataConnector::deadline_from_now() const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_));
}

void DataConnector::begin_dial(const DataConnectionId& id, End& end) {
  end.wanted = true;
  end.silent = false;
  end.late_tries = 0;
  end.give_up = deadline_from_now();
  dial(id);
}

void DataConnector::dial(const DataConnectionId& id) {
  End& end = ends_.at(id);
  Key key{};
  if (const Status status = callbacks_.key_for(member_table_->members().process(id.peer), &key); !status.ok())
    return dial_failed(id, status);
  const auto done = [weak = weak_from_this(), id](const Status& why, const std::shared_ptr<Connection>& connection) {
    if (const auto self = weak.lock()) self->dialed(id, why, connection);
  };
  end.dialer = std::make_shared<Dialer>(callbacks_.loop, targets_for(id.peer), Role::kData, callbacks_.id, key, done);
  const auto dialer = end.dialer;  // end.dialer may fail, and be replaced, before start() returns
  const auto left = std::max<Clock::duration>(end.give_up - Clock::now(), end.silent ? kLongestAnswer : kLeastTime);
  end.timer = callbacks_.loop.after(left, [weak = weak_from_this(), id] {
    if (const auto self = weak.lock()) self->dial_late(id);
  });
  dialer->start();
}

/// Nobody has refused, but the time is over.
void DataConnector::dial_late(const DataConnectionId& id) {
  const auto found = ends_.find(id);
  if (found == ends_.end() || !found->second.dialer) return;
  const auto dialer = found->second.dialer;
  dial_failed(id, fail(Code::kTimeout, "{}", dialer->progress()), dialer->accepted_in_silence());
}

void DataConnector::dialed(const DataConnectionId& id, const Status& why,
                           const std::shared_ptr<Connection>& connection) {
  const auto found = ends_.find(id);
  if (found == ends_.end()) return;
  End& end = found->second;
  if (!connection) return dial_failed(id, why, end.dialer->accepted_in_silence());
  callbacks_.loop.cancel(end.timer);
  end.connection = connection;
  const auto weak = weak_from_this();
  ConnectionEvents events;
  events.on_message = [weak, id](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    return self ? self->take_opened(id, type, payload) : Status();
  };
  events.on_close = [weak, id](const Status& closed) {
    if (const auto self = weak.lock()) self->dial_failed(id, closed);
  };
  connection->set_events(std::move(events));
  connection->set_timeout(timeout_, !callbacks_.watches(member_table_->members().process(id.peer), *connection));
  end.timer = callbacks_.loop.after(kLongestAnswer, [weak, id] {
    if (const auto self = weak.lock()) self->dial_failed(id, fail(Code::kTimeout, "no answer"), true);
  });
  connection->send(MessageType::kOpenData,
                   encode(DataConnectionMessage{callbacks_.process, id.local, id.peer, id.lane}));
}

Status DataConnector::take_opened(const DataConnectionId& id, MessageType type, ByteView payload) {
  DataConnectionMessage answer;
  if (type != MessageType::kDataOpened)
    return fail(Code::kRemoteError, "not the answer to the opening of a data connection");
  TUTTI_TRY(decode(payload, &answer));
  const bool fits = answer.process == member_table_->members().process(id.peer) && answer.from == id.peer &&
                    answer.to == id.local && answer.lane == id.lane;
  if (!fits) return fail(Code::kRemoteError, "an answer for another data connection");
  const auto found = ends_.find(id);
  if (found == ends_.end()) return fail(Code::kRemoteError, "nobody waits for this data connection");
  const std::shared_ptr<Connection> connection = found->second.connection;
  TcpStream stream;
  TUTTI_TRY(connection->hand_over(&stream));
  arrived(id, std::move(stream));
  return {};
}

/// `silent` means that the peer's host accepted the connection. Then the timeout, which is for peers that are not
/// reached, does not count: the control connection finds out whether the process lives, and the deadline of whoever
/// waits ends the wait. A host may also have so many connections that it drops the next one, so a peer that was silent
/// still counts as reached while the control connection is up.
///
/// If this process has no core for ten seconds, its peer closes a connection on which nothing was said. So a try that
/// is answered after the timeout, but not with a stream, does not show that the peer is at fault: a few more tries do.
void DataConnector::dial_failed(const DataConnectionId& id, const Status& why, bool silent) {
  const auto found = ends_.find(id);
  if (found == ends_.end()) return;
  End& end = found->second;
  drop(end);
  if (!worth_it(id)) return;
  if (silent) end.give_up = deadline_from_now();
  end.silent = silent || (end.silent && callbacks_.in_touch(member_table_->members().process(id.peer)));
  if (end.silent || Clock::now() < end.give_up) return retry_later(id, end);
  if (why.code() != Code::kTimeout && end.late_tries++ < kMostLateTries) return retry_later(id, end);
  cannot_reach(id, why);
}

void DataConnector::retry_later(const DataConnectionId& id, End& end) {
  end.wanted = true;
  end.timer = callbacks_.loop.after(end.silent ? kSilentRetry : kStreamRetry, [weak = weak_from_this(), id] {
    const auto self = weak.lock();
    if (!self || !self->ends_.contains(id)) return;
    if (self->worth_it(id)) return self->dial(id);
    self->drop(self->ends_.at(id));
  });
}

void DataConnector::cannot_reach(const DataConnectionId& id, const Status& why) {
  const std::string text = fmt::format("rank {} ({}) cannot be reached from rank {}: {}", id.peer.value,
                                       describe(member_table_->members()[id.peer]), id.local.value, why.text());
  const bool own = is_lack(why);
  callbacks_.post_cause(id.local, FailureCause{.code = own ? Code::kSystemError : Code::kRemoteError,
                                               .from = id.local,
                                               .culprit = own ? id.local : id.peer,
                                               .text = text});
}

void DataConnector::end_waits(const Status& why) {
  const auto waits = std::find_if(ends_.begin(), ends_.end(), [](const auto& item) { return item.second.wanted; });
  if (waits == ends_.end()) return;
  const Rank local = waits->first.local;
  const std::string text =
      fmt::format("rank {} ({}): {}", local.value, describe(member_table_->members()[local]), why.text());
  callbacks_.post_cause(local, FailureCause{.code = why.code(), .from = local, .culprit = local, .text = text});
}

void DataConnector::serve(const std::shared_ptr<Connection>& connection) {
  Connection* const raw = connection.get();
  unnamed_[raw] = connection;
  const auto weak = weak_from_this();
  ConnectionEvents events;
  events.on_message = [weak, raw](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    return self ? self->take_open(raw, type, payload) : Status();
  };
  events.on_close = [weak, raw](const Status& why) {
    log(LogLevel::kDebug, {}, "a data connection was refused: {}", why.text());
    if (const auto self = weak.lock()) self->unnamed_.erase(raw);
  };
  connection->set_events(std::move(events));
}

Status DataConnector::take_open(Connection* from, MessageType type, ByteView payload) {
  DataConnectionMessage message;
  if (type != MessageType::kOpenData) return fail(Code::kRemoteError, "a data connection did not name itself");
  TUTTI_TRY(decode(payload, &message));
  const bool sane = accepted_.contains(message.to) && message.from > message.to &&
                    message.from.value < member_table_->ranks() &&
                    member_table_->members().process(message.from) == message.process;
  if (!sane) return fail(Code::kRemoteError, "a data connection of somebody else");
  const auto found = unnamed_.find(from);
  if (found == unnamed_.end()) return fail(Code::kRemoteError, "a data connection is named twice");
  const std::shared_ptr<Connection> connection = found->second;
  connection->set_timeout(timeout_, !callbacks_.watches(message.process, *connection));
  connection->send(MessageType::kDataOpened,
                   encode(DataConnectionMessage{callbacks_.process, message.to, message.from, message.lane}));
  TcpStream stream;
  TUTTI_TRY(connection->hand_over(&stream));
  unnamed_.erase(from);
  arrived(DataConnectionId{message.to, message.from, message.lane}, std::move(stream));
  return {};
}

void DataConnector::arrived(const DataConnectionId& id, TcpStream stream) {
  End& end = ends_[id];
  drop(end);
  ++end.streams;
  if (const auto found = accepted(id.local)) found->put(id.peer, id.lane, end.streams, std::move(stream));
}

}  // namespace tutti
