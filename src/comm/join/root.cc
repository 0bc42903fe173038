#include "comm/join/root.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "comm/membership/process_order.h"
#include "core/log.h"

namespace tutti {
namespace {

constexpr std::chrono::seconds kMissingReports{1};
/// A live process answers at once, or after a while on a busy machine. All must have ended before the ranks, which wait
/// two seconds after their deadlines, give the root up.
constexpr std::chrono::milliseconds kReplyTime{500}, kReplyTimeOfRank{1}, kLongestReplyTime{1500};
constexpr std::chrono::seconds kEndAfterDone{10};
constexpr std::chrono::seconds kEndAfterFailure{3};
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
  TUTTI_TRY(decode(payload, &join));
  if (join.member.rank.value >= join.ranks || joined_by(from) != nullptr)
    return fail(Code::kRemoteError, "a join that makes no sense");
  const Rank rank = join.member.rank;
  if (state_ == State::kFailed || state_ == State::kDone || !fits(join)) {
    const Status& answer = state_ == State::kFailed ? failure_ : used_up();
    from->send(MessageType::kFailure, encode(FailureMessage{answer.code(), answer.text()}));
    answered_.insert(rank);
    return {};
  }
  ranks_ = join.ranks;
  const std::uint64_t timeout = join.timeout_ms;
  Joined& joined = joined_[rank];
  joined.join = std::move(join);
  joined.connection = from;
  by_connection_[from] = rank;
  if (timeout != 0)
    joined.deadline = loop_.after(std::chrono::milliseconds(timeout), [weak = weak_from_this(), rank] {
      if (const auto self = weak.lock()) self->on_deadline(rank);
    });
  if (joined_.size() == static_cast<std::size_t>(ranks_)) {
    complete();
    return {};
  }
  from->send(MessageType::kMissing, encode(MissingMessage{missing()}));
  if (missing_timer_ == 0)
    missing_timer_ = loop_.after(kMissingReports, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->report_missing();
    });
  return {};
}

bool RootSession::fits(const JoinMessage& join) {
  if (state_ == State::kLinking) {  // all ranks are there already, so this is one too many
    const auto found = joined_.find(join.member.rank);
    const std::string other = found == joined_.end() ? "" : " and " + describe(found->second.join.member);
    fail_all(fail(Code::kInvalidArgument, "rank {} joined twice: {}{}", join.member.rank.value, describe(join.member),
                  other));
    return false;
  }
  if (joined_.empty()) return true;
  const JoinMessage& first = joined_.begin()->second.join;
  if (join.ranks != first.ranks) {
    fail_all(fail(Code::kInvalidArgument, "{} joined with {} ranks, but {} with {}", name(first.member), first.ranks,
                  name(join.member), join.ranks));
    return false;
  }
  const auto twin = joined_.find(join.member.rank);
  if (twin == joined_.end()) return true;
  fail_all(fail(Code::kInvalidArgument, "rank {} joined twice: {} and {}", join.member.rank.value,
                describe(twin->second.join.member), describe(join.member)));
  return false;
}

void RootSession::complete() {
  if (!settings_agree()) return;
  loop_.cancel(missing_timer_);
  TableMessage table;
  if (const Status status = id_.comm_id(&table.comm_id); !status.ok()) return fail_all(status);
  for (const auto& [rank, joined] : joined_) table.members.push_back(joined.join.member);
  state_ = State::kLinking;
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
  std::vector<std::string> names;  // the settings of the first rank in its order, then those that only others have
  for (const auto& [rank, joined] : joined_)
    for (const AgreedSetting& setting : joined.join.agreed)
      if (std::find(names.begin(), names.end(), setting.name) == names.end()) names.push_back(setting.name);
  for (const std::string& name : names) {
    std::map<std::string, std::vector<Rank>> holders;
    for (const auto& [rank, joined] : joined_) {
      const auto& agreed = joined.join.agreed;
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
  if (state_ != State::kLinking || joined == nullptr || joined->ready)
    return fail(Code::kRemoteError, "a rank is ready out of turn");
  joined->ready = true;
  joined->mapped = ready.mapped;
  if (not_ready().empty()) all_ready();
  return {};
}

void RootSession::all_ready() {
  GoMessage go;
  for (const auto& [rank, joined] : joined_)
    if (!joined.mapped) go.apart.push_back(rank);
  if (const auto first = joined_.find(Rank{0}); first != joined_.end()) go.costs_text = first->second.join.costs_text;
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
  joined->reported = true;
  end_late(Status(late.code, late.text));
  return {};
}

/// A rank that is waited for may itself wait for another one. So all are asked before the join ends, and those who do
/// not answer are named. `why` is what the first rank that could not wait any longer says.
void RootSession::end_late(const Status& why) {
  if (answer_timer_ == 0) {
    late_ = why;
    const auto replies = std::min(kReplyTime + ranks_ * kReplyTimeOfRank, kLongestReplyTime);
    answer_timer_ = loop_.after(replies, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && self->state_ == State::kLinking) self->fail_late();
    });
    send_to_all(MessageType::kAskWhy, {});
  }
  const bool all_answered = std::all_of(joined_.begin(), joined_.end(),
                                        [](const auto& item) { return item.second.ready || item.second.reported; });
  if (all_answered) fail_late();
}

void RootSession::fail_late() {
  constexpr std::size_t kMostDescribed = 4;
  std::vector<Rank> silent;
  std::vector<std::string> names;
  for (const auto& [rank, joined] : joined_) {
    if (joined.ready || joined.reported) continue;
    silent.push_back(rank);
    names.push_back(name(joined.join.member));
  }
  if (silent.empty()) return fail_all(late_);
  const std::string who = silent.size() <= kMostDescribed ? fmt::format("{}", fmt::join(names, ", ")) : text_of(silent);
  fail_all(fail(late_.code(), "{} {} not answer; {}", who, silent.size() == 1 ? "does" : "do", late_.text()));
}

void RootSession::on_deadline(Rank rank) {
  if (state_ != State::kCollecting && state_ != State::kLinking) return;
  const JoinMessage& join = joined_.at(rank).join;
  const double waited = static_cast<double>(join.timeout_ms) / 1000;
  if (state_ == State::kCollecting)
    return fail_all(fail(Code::kTimeout, "{} of {} did not join within the {:.3g} s that rank {} waited",
                         text_of(missing()), ranks_, waited, rank.value));
  end_late(fail(Code::kTimeout,
                "{} of {} joined but did not link to all neighbours within the {:.3g} s that rank {} waited",
                text_of(not_ready()), ranks_, waited, rank.value));
}

void RootSession::on_close(Connection* connection) {
  const std::shared_ptr<Connection> kept = std::move(connections_[connection]);
  connections_.erase(connection);
  Joined* const joined = joined_by(connection);
  by_connection_.erase(connection);
  if (joined != nullptr) joined->connection = nullptr;  // the next connection may get the same address
  if (joined != nullptr && (state_ == State::kCollecting || state_ == State::kLinking))
    fail_all(fail(Code::kRemoteError, "{} ended, or gave up, while it was joining", name(joined->join.member)));
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
    if (joined.join.timeout_ms != 0)
      timeout = std::min(timeout, std::chrono::milliseconds(joined.join.timeout_ms) + kMissingReports);
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
      if (type == MessageType::kMissing) continue;  // the next report is a second away
      joined.connection->close();                   // that rank's join fails by this
      lacks_memory = true;
    }
  }
  if (lacks_memory) log(LogLevel::kError, LogSource{}, "out of memory: connections to joining ranks were closed");
}

void RootSession::report_missing() {
  missing_timer_ = 0;
  if (state_ == State::kCollecting) send_to_all(MessageType::kMissing, encode(MissingMessage{missing()}));
}

std::vector<Rank> RootSession::missing() const {
  std::vector<Rank> ranks;
  for (std::int32_t i = 0; i < ranks_; ++i)
    if (!joined_.contains(Rank{i})) ranks.push_back(Rank{i});
  return ranks;
}

std::vector<Rank> RootSession::not_ready() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, joined] : joined_)
    if (!joined.ready) ranks.push_back(rank);
  return ranks;
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
