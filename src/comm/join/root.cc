#include "comm/join/root.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "comm/membership/process_order.h"
#include "core/log.h"

namespace tutti {
namespace {

/// A rank of this host takes a descriptor for its connection and one that watches its process, one of another host the
/// first of these. The process and its program need some for other things.
constexpr std::size_t kDescriptorsOfRank = 2, kOtherDescriptors = 1024;
/// The root raises the limit of descriptors only if more ranks than this join.
constexpr std::int32_t kManyRanks = 256;
/// Between two reports to all ranks of who is missing; longer if there are more than 4,000 ranks, so that the root
/// spends a small part of its time on them.
constexpr std::chrono::microseconds kMissingReports = std::chrono::seconds{1};
constexpr std::chrono::microseconds kMissingReportsOfRank{250};
/// A live process answers at once, or after a while on a busy machine. All must have ended before the ranks, which wait
/// two seconds after their deadlines, give the root up.
constexpr std::chrono::milliseconds kReplyTime{500}, kReplyTimeOfRank{1}, kLongestReplyTime{1500};
constexpr std::chrono::seconds kEndAfterDone{10};
constexpr std::chrono::seconds kEndAfterFailure{3};
/// After a failure, ranks that come are answered for as long as the rank with the least time would have waited, and for
/// so long on top, but not longer than kEndAfterFailure.
constexpr std::chrono::milliseconds kOnTop{1000};
constexpr std::size_t kMaxPast = 256;
/// For so long after a failed join, ranks that come late get the reason why it failed.
constexpr std::chrono::seconds kLateRanks{60};

Status used_up() { return fail(Code::kInvalidUsage, "this unique id was used already: one id makes one communicator"); }

}  // namespace

RootSession::RootSession(EventLoop& loop, const UniqueId& id, Ended ended)
    : loop_(loop), id_(id), ended_(std::move(ended)) {}

Status RootSession::open(PendingConnections& pending) {
  std::string name;
  TUTTI_TRY(id_.socket_name(&name));
  return Acceptor::listen_unix(loop_, pending, name, &acceptor_);
}

void RootSession::stop() {
  acceptor_.reset();
  for (const auto& [raw, connection] : connections_) connection->close();
  connections_.clear();
}

void RootSession::serve(const std::shared_ptr<Connection>& connection) {
  Connection* const raw = connection.get();
  connections_[raw] = connection;
  ConnectionEvents events;
  const std::weak_ptr<RootSession> weak = weak_from_this();
  events.on_message = [weak, raw](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    return self ? self->on_message(raw, type, payload) : Status();
  };
  events.on_close = [weak, raw](const Status&) {
    if (const auto self = weak.lock()) self->on_close(raw);
  };
  connection->set_limit(1024 * 1024);
  connection->set_events(std::move(events));
}

Status RootSession::on_message(Connection* from, MessageType type, ByteView payload) {
  switch (type) {
    case MessageType::kJoin:
      return take_join(from, payload);
    case MessageType::kReady:
      return take_ready(from, payload);
    case MessageType::kFailure:
      return take_failure(payload);
    case MessageType::kLate:
      return take_late(from, payload);
    default:
      return fail(Code::kRemoteError, "a message that a root does not expect");
  }
}

RootSession::Joined* RootSession::joined_by(const Connection* connection) {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : &joined_.at(found->second);
}

std::string RootSession::name(const Member& member) const {
  return fmt::format("rank {} ({})", member.rank.value, describe(member));
}

Status RootSession::take_join(Connection* from, ByteView payload) {
  JoinMessage join;
  if (const Status read = decode(payload, &join); !read.ok()) {
    const std::string why = fmt::format("the process that serves the unique id cannot read a join ({})", read.text());
    from->send(MessageType::kFailure,
               encode(FailureMessage{Code::kMismatch, why + ": is its library another version?"}));
    return read;
  }
  if (join.member.rank.value >= join.ranks || joined_by(from) != nullptr)
    return fail(Code::kRemoteError, "a join that makes no sense");
  const Rank rank = join.member.rank;
  if (state_ == State::kFailed || state_ == State::kDone || !fits(join)) {
    const Status& answer = state_ == State::kFailed ? failure_ : used_up();
    from->send(MessageType::kFailure, encode(FailureMessage{answer.code(), answer.text()}));
    answered_.insert(rank);
    return {};
  }
  add(std::move(join), from);
  if (awaited_.empty()) {
    complete();
    return {};
  }
  from->send(MessageType::kMissing, encode(MissingMessage{text_of(awaited_)}));
  if (missing_timer_ == 0)
    missing_timer_ = loop_.after(std::max(kMissingReports, ranks_ * kMissingReportsOfRank), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->report_missing();
    });
  return {};
}

void RootSession::add(JoinMessage join, Connection* from) {
  if (joined_.empty()) {
    ranks_ = join.ranks;
    await_all();
    if (ranks_ > kManyRanks)
      allow_descriptors(kDescriptorsOfRank * static_cast<std::size_t>(ranks_) + kOtherDescriptors);
  }
  const Rank rank = join.member.rank;
  if (rank == Rank{0}) costs_text_ = std::move(join.costs_text);
  const Agreed& agreed = *agreed_.insert(std::move(join.agreed)).first;
  Joined& joined = joined_[rank];
  joined.member = std::move(join.member);
  joined.timeout_ms = join.timeout_ms;
  joined.agreed = &agreed;
  joined.connection = from;
  by_connection_[from] = rank;
  awaited_.erase(rank);
  if (joined.timeout_ms == 0) return;
  joined.deadline = loop_.after(std::chrono::milliseconds(joined.timeout_ms), [weak = weak_from_this(), rank] {
    if (const auto self = weak.lock()) self->on_deadline(rank);
  });
}

void RootSession::await_all() {
  for (Rank rank{0}; rank.value < ranks_; ++rank) awaited_.insert(awaited_.end(), rank);
}

bool RootSession::fits(const JoinMessage& join) {
  if (state_ == State::kLinking) {  // all ranks are there already, so this is one too many
    const auto found = joined_.find(join.member.rank);
    const std::string other = found == joined_.end() ? "" : " and " + describe(found->second.member);
    fail_all(fail(Code::kInvalidArgument, "rank {} joined twice: {}{}", join.member.rank.value, describe(join.member),
                  other));
    return false;
  }
  if (joined_.empty()) return true;
  if (join.ranks != ranks_) {
    fail_all(fail(Code::kInvalidArgument, "{} joined with {} ranks, but {} with {}",
                  name(joined_.begin()->second.member), ranks_, name(join.member), join.ranks));
    return false;
  }
  const auto twin = joined_.find(join.member.rank);
  if (twin == joined_.end()) return true;
  fail_all(fail(Code::kInvalidArgument, "rank {} joined twice: {} and {}", join.member.rank.value,
                describe(twin->second.member), describe(join.member)));
  return false;
}

void RootSession::complete() {
  if (!settings_agree()) return;
  loop_.cancel(missing_timer_);
  TableMessage table;
  if (const Status status = id_.comm_id(&table.comm_id); !status.ok()) return fail_all(status);
  for (const auto& [rank, joined] : joined_) table.members.push_back(joined.member);
  state_ = State::kLinking;
  await_all();
  send_table(table);
}

/// Sends the table to the first process. The others get the name of the process that they have it from. The lowest rank
/// of a process gets the message.
void RootSession::send_table(const TableMessage& table) {
  const MemberList members(table.members);
  const ProcessOrder order(members, 0);
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto found = connections_.find(joined_.at(order[place].ranks.front()).connection);
    if (found == connections_.end()) continue;
    if (const auto parent = order.parent(place)) {
      const Rank first = order[*parent].ranks.front();
      found->second->send(MessageType::kTableSource, encode(TableSourceMessage{members[first]}));
    } else {
      found->second->send(MessageType::kTable, encode(table));
    }
  }
}

bool RootSession::settings_agree() {
  if (agreed_.size() == 1) return true;
  std::vector<std::string> names;  // the settings of the first rank in its order, then those that only others have
  for (const auto& [rank, joined] : joined_)
    for (const AgreedSetting& setting : *joined.agreed)
      if (std::find(names.begin(), names.end(), setting.name) == names.end()) names.push_back(setting.name);
  for (const std::string& name : names) {
    std::map<std::string, std::vector<Rank>> holders;
    for (const auto& [rank, joined] : joined_) {
      const Agreed& agreed = *joined.agreed;
      const auto found = std::find_if(agreed.begin(), agreed.end(),
                                      [&](const AgreedSetting& setting) { return setting.name == name; });
      holders[found == agreed.end() ? "" : found->value].push_back(rank);
    }
    if (holders.size() == 1) continue;
    std::string text;
    for (const auto& [value, ranks] : holders)
      text += fmt::format("{}\"{}\" on {}", text.empty() ? "" : ", ", value, text_of(ranks));
    fail_all(fail(Code::kMismatch, "{} must be the same on all ranks, but is {}", name, text));
    return false;
  }
  return true;
}

Status RootSession::take_ready(Connection* from, ByteView payload) {
  ReadyMessage ready;
  TUTTI_TRY(decode(payload, &ready));
  Joined* const joined = joined_by(from);
  if (state_ == State::kFailed) return {};
  if (state_ != State::kLinking || joined == nullptr || awaited_.erase(joined->member.rank) == 0)
    return fail(Code::kRemoteError, "a rank is ready out of turn");
  silent_.erase(joined->member.rank);
  joined->mapped = ready.mapped;
  if (awaited_.empty()) all_ready();
  return {};
}

void RootSession::all_ready() {
  GoMessage go;
  for (const auto& [rank, joined] : joined_)
    if (!joined.mapped) go.apart.push_back(rank);
  go.costs_text = costs_text_;
  const std::vector<std::byte> message = encode(go);
  state_ = State::kDone;
  acceptor_.reset();
  send_to_all(MessageType::kGo, message);
  for (const auto& [rank, joined] : joined_) loop_.cancel(joined.deadline);
  loop_.cancel(answer_timer_);
  end_timer_ = loop_.after(kEndAfterDone, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end();
  });
}

Status RootSession::take_failure(ByteView payload) {
  FailureMessage failure;
  TUTTI_TRY(decode(payload, &failure));
  if (state_ == State::kCollecting || state_ == State::kLinking) fail_all(Status(failure.code, failure.text));
  return {};
}

Status RootSession::take_late(Connection* from, ByteView payload) {
  FailureMessage late;
  TUTTI_TRY(decode(payload, &late));
  Joined* const joined = joined_by(from);
  if (state_ != State::kLinking || joined == nullptr) return {};
  end_late(Status(late.code, late.text), joined->member.rank);
  return {};
}

/// A rank that is waited for may itself wait for another one. So all are asked before the join ends, and those who do
/// not answer are named. `why` is what the first rank that could not wait any longer says.
void RootSession::end_late(const Status& why, Rank answered) {
  if (answer_timer_ == 0) {
    late_ = why;
    silent_ = awaited_;
    const auto replies = std::min(kReplyTime + ranks_ * kReplyTimeOfRank, kLongestReplyTime);
    answer_timer_ = loop_.after(replies, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && self->state_ == State::kLinking) self->fail_late();
    });
    send_to_all(MessageType::kAskWhy, {});
  }
  silent_.erase(answered);
  if (silent_.empty()) fail_late();
}

void RootSession::fail_late() {
  constexpr std::size_t kMostDescribed = 4;
  if (silent_.empty()) return fail_all(late_);
  std::vector<std::string> names;
  if (silent_.size() <= kMostDescribed)
    for (const Rank rank : silent_) names.push_back(name(joined_.at(rank).member));
  const std::string who = names.empty() ? text_of(silent_) : fmt::format("{}", fmt::join(names, ", "));
  fail_all(fail(late_.code(), "{} {} not answer; {}", who, silent_.size() == 1 ? "does" : "do", late_.text()));
}

void RootSession::on_deadline(Rank rank) {
  if (state_ != State::kCollecting && state_ != State::kLinking) return;
  const double waited = static_cast<double>(joined_.at(rank).timeout_ms) / 1000;
  if (state_ == State::kCollecting)
    return fail_all(fail(Code::kTimeout, "{} of {} did not join within the {:.3g} s that rank {} waited",
                         text_of(awaited_), ranks_, waited, rank.value));
  end_late(
      fail(Code::kTimeout, "{} of {} joined but did not link to all neighbours within the {:.3g} s that rank {} waited",
           text_of(awaited_), ranks_, waited, rank.value),
      kNoRank);
}

void RootSession::on_close(Connection* connection) {
  const std::shared_ptr<Connection> kept = std::move(connections_[connection]);
  connections_.erase(connection);
  Joined* const joined = joined_by(connection);
  by_connection_.erase(connection);
  if (joined != nullptr) joined->connection = nullptr;  // the next connection may get the same address
  if (joined != nullptr && (state_ == State::kCollecting || state_ == State::kLinking))
    fail_all(fail(Code::kRemoteError, "{} ended, or gave up, while it was joining", name(joined->member)));
  end_if_idle();
}

void RootSession::fail_all(const Status& why) {
  const std::vector<std::byte> message = encode(FailureMessage{why.code(), why.text()});
  failure_ = why;
  state_ = State::kFailed;
  send_to_all(MessageType::kFailure, message);  // comes first, because what follows may run out of memory
  loop_.cancel(missing_timer_);
  loop_.cancel(answer_timer_);
  auto timeout = std::chrono::milliseconds(kEndAfterFailure);
  for (const auto& [rank, joined] : joined_) {
    loop_.cancel(joined.deadline);
    if (joined.timeout_ms != 0) timeout = std::min(timeout, std::chrono::milliseconds(joined.timeout_ms) + kOnTop);
  }
  end_timer_ = loop_.after(timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end();
  });
  for (const auto& [rank, joined] : joined_) answered_.insert(rank);
}

void RootSession::send_to_all(MessageType type, ByteView payload) {
  bool lacks_memory = false;
  for (const auto& [rank, joined] : joined_) {
    if (!connections_.contains(joined.connection)) continue;
    try {
      joined.connection->send(type, payload);
    } catch (const std::bad_alloc&) {
      if (type == MessageType::kMissing) continue;  // it is for texts alone
      joined.connection->close();                   // that rank's join fails by this
      lacks_memory = true;
    }
  }
  if (lacks_memory) log(LogLevel::kError, LogSource{}, "out of memory: connections to joining ranks were closed");
}

void RootSession::report_missing() {
  missing_timer_ = 0;
  if (state_ == State::kCollecting) send_to_all(MessageType::kMissing, encode(MissingMessage{text_of(awaited_)}));
}

void RootSession::end_if_idle() {
  if (!connections_.empty()) return;
  if (state_ == State::kDone || (state_ == State::kFailed && answered_.size() >= static_cast<std::size_t>(ranks_)))
    end();
}

void RootSession::end() {
  if (!ended_) return;
  const auto self = shared_from_this();
  Status answer = no_memory();  // in case there is none for the text
  try {
    answer = state_ == State::kFailed ? failure_ : used_up();
  } catch (const std::bad_alloc&) {
  }
  loop_.cancel(end_timer_);
  stop();
  const auto ended = std::exchange(ended_, nullptr);
  ended(answer);
}

void RootSession::withdraw() {
  if (joined_.empty() && state_ == State::kCollecting) end();
}

void RootSession::fail_join(const Status& why) {
  const bool begun = state_ == State::kLinking || (state_ == State::kCollecting && !joined_.empty());
  if (begun) fail_all(fail(why.code(), "the process that serves the unique id: {}", why.text()));
}

void RootSession::cancel(const Status& why) {
  if (state_ == State::kCollecting || state_ == State::kLinking) fail_all(why);
}

Status RootSession::answer() const {
  if (state_ == State::kCollecting || state_ == State::kLinking) return {};
  return state_ == State::kFailed ? failure_ : used_up();
}

RootService::~RootService() {
  for (const auto& [id, active] : active_) active.session->stop();
}

Status RootService::add(const UniqueId& id, std::shared_ptr<Hub> user) {
  auto session = std::make_shared<RootSession>(
      hub_.loop(), id, [this, nonce = id.nonce](const Status& answer) { ended(nonce, answer); });
  TUTTI_TRY(session->open(hub_.pending()));
  active_[id.nonce] = Active{std::move(session), std::move(user)};
  return {};
}

void RootService::withdraw(const KeyId& id) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  const auto session = found->second.session;  // its end removes the entry
  session->withdraw();
}

void RootService::cancel(const KeyId& id, const Status& why) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  const auto session = found->second.session;  // its end removes the entry
  session->cancel(why);
}

Status RootService::answer(const KeyId& id) const {
  if (const auto found = active_.find(id); found != active_.end()) return found->second.session->answer();
  const Past* const past = find_past(id);
  return past != nullptr ? past->answer : used_up();
}

const RootService::Past* RootService::find_past(const KeyId& id) const {
  const auto past = std::find_if(past_.begin(), past_.end(), [&](const Past& item) { return item.id == id; });
  return past == past_.end() ? nullptr : &*past;
}

Expected RootService::expects(const Arrival& arrival) const {
  const bool same_host = arrival.known && arrival.own == arrival.other;
  if (!active_.empty() || (same_host && !past_.empty())) return Expected::kAtHub;
  const bool late = last_failure_ != Clock::time_point() && Clock::now() - last_failure_ < kLateRanks;
  return late ? Expected::kAtHub : Expected::kNowhere;
}

void RootService::fail_all(const Status& why) {
  const auto active = active_;
  for (const auto& [id, item] : active) item.session->fail_join(why);
}

bool RootService::find_secret(const KeyId& id, Key* secret) const {
  if (const auto found = active_.find(id); found != active_.end()) {
    *secret = found->second.session->secret();
    return true;
  }
  const Past* const past = find_past(id);
  if (past == nullptr) return false;
  *secret = past->secret;
  return true;
}

void RootService::serve(const std::shared_ptr<Connection>& connection) {
  const KeyId& id = connection->handshake().key_id();
  if (const auto found = active_.find(id); found != active_.end()) return found->second.session->serve(connection);
  const Past* const past = find_past(id);
  if (past == nullptr) return connection->close();
  connection->send(MessageType::kFailure, encode(FailureMessage{past->answer.code(), past->answer.text()}));
  // The other end closes the connection when it has read this. If it does not, this end closes it.
  hub_.loop().after(kEndAfterDone, [weak = std::weak_ptr<Connection>(connection)] {
    if (const auto kept = weak.lock()) kept->close();
  });
}

void RootService::ended(const KeyId& id, const Status& answer) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  if (answer.code() != used_up().code()) last_failure_ = Clock::now();
  past_.push_back(Past{id, found->second.session->secret(), answer});
  if (past_.size() > kMaxPast) past_.pop_front();
  // It may hold the hub's last user, so it is freed when all else is done.
  const Active last = std::move(found->second);
  active_.erase(found);
}

}  // namespace tutti
