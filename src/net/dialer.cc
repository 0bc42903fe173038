#include "net/dialer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/tls_credentials.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kStagger{250};
/// A unix socket that took the connection is the peer's: if it is slow, more connections make it slower.
constexpr std::chrono::milliseconds kUnixStagger{5000};
constexpr std::chrono::milliseconds kRetryFullQueue{10};
/// Where the hub was and lets go of the connection it has taken, it may be about to end.
constexpr std::chrono::milliseconds kRetryAfterLetGo{100};
constexpr int kMostTimesLetGo = 3;

bool is_no_answer(const Status& why) { return why.code() == Code::kTimeout || is_unreachable(why) || is_lack(why); }

}  // namespace

std::string text_of(const DialTarget& target) {
  return target.socket_name.empty() ? text_of(target.address, target.port) : "the unix socket";
}

std::vector<DialTarget> tcp_targets(const std::vector<IpAddress>& addresses, std::uint16_t port, bool tls) {
  std::vector<DialTarget> targets;
  if (port == 0) return targets;
  for (const IpAddress& address : addresses) {
    if (address.family == 4 || !address.is_link_local()) {
      targets.push_back(DialTarget{{}, address, port, 0, tls});
      continue;
    }
    for (const std::uint32_t scope : link_scopes()) targets.push_back(DialTarget{{}, address, port, scope, tls});
  }
  return targets;
}

Dialer::Dialer(EventLoop& loop, std::vector<DialTarget> targets, Role role, const KeyId& id, const Key& secret,
               Done done)
    : loop_(loop), targets_(std::move(targets)), role_(role), id_(id), secret_(secret), done_(std::move(done)) {
  attempts_.resize(targets_.size());
}

void Dialer::start() {
  if (!targets_.empty()) return try_next();
  const auto done = std::move(done_);
  done(fail(Code::kSystemError, "it has no address"), nullptr);
}

void Dialer::cancel() {
  done_ = nullptr;
  loop_.cancel(timer_);
  for (auto& attempt : attempts_)
    if (attempt) attempt->close();
  attempts_.clear();
}

void Dialer::try_next() {
  loop_.cancel(timer_);
  if (next_ >= targets_.size()) return;
  const std::size_t index = next_++;
  if (next_ < targets_.size())
    timer_ = loop_.after(targets_[index].socket_name.empty() ? kStagger : kUnixStagger, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && self->done_) self->try_next();
    });
  try_target(index);
}

void Dialer::try_target(std::size_t index) {
  const DialTarget& target = targets_[index];
  Socket connected;
  SocketState state = SocketState::kDone;
  const Status status = target.socket_name.empty()
                            ? Socket::connect(target.address, target.port, target.scope, &connected)
                            : Socket::connect(target.socket_name, &connected, &state);
  if (!status.ok()) return failed(index, status);
  if (state == SocketState::kClosed) return failed(index, fail(Code::kSystemError, "nobody listens there"));
  const auto weak = weak_from_this();
  if (state == SocketState::kAgain) return try_later(index, kRetryFullQueue);
  if (target.tls) {
    const Status encrypted = encrypt_as_client(role_, id_, secret_, &connected);
    if (!encrypted.ok()) return failed(index, encrypted);
  }
  ConnectionEvents events;
  events.on_open = [weak](const std::shared_ptr<Connection>& connection) {
    if (const auto self = weak.lock()) self->won(connection);
  };
  events.on_close = [weak, index](const Status& why) {
    if (const auto self = weak.lock(); self && self->done_) self->failed(index, why);
  };
  const Status started = Connection::start(loop_, std::move(connected), Handshake::client(role_, id_, secret_),
                                           std::move(events), &attempts_[index]);
  if (!started.ok()) failed(index, started);
}

void Dialer::failed(std::size_t index, const Status& why) {
  const auto self = shared_from_this();
  const DialTarget& target = targets_[index];
  const std::shared_ptr<Connection> attempt = std::move(attempts_[index]);
  if (was_let_go(target, why)) return try_later(index, kRetryAfterLetGo);
  reasons_ += fmt::format("{}{}: {}", reasons_.empty() ? "" : "; ", text_of(target), why.text());
  accepted_in_silence_ = accepted_in_silence_ || (why.code() == Code::kTimeout && attempt && attempt->taken());
  count_failure(target, why);
  if (++failures_ < targets_.size() && !hub_gone_) return try_next();
  const auto done = std::move(done_);
  cancel();
  if (done) done(fail(why.code(), "{}", reasons_), nullptr);
}

// A process that ends takes connections until its listening socket is closed, and word of its end must not wait for
// its other addresses.
bool Dialer::was_let_go(const DialTarget& target, const Status& why) {
  const bool answered = !is_no_answer(why) && !is_refusal(why);
  return target.was_connected && answered && ++times_let_go_ <= kMostTimesLetGo;
}

void Dialer::try_later(std::size_t index, std::chrono::milliseconds pause) {
  loop_.after(pause, [weak = weak_from_this(), index] {
    if (const auto self = weak.lock(); self && self->done_) self->try_target(index);
  });
}

void Dialer::count_failure(const DialTarget& target, const Status& why) {
  const bool refusal = is_refusal(why);
  const bool own = target.socket_name.empty() && is_own_address(target.address);
  const bool silent = is_no_answer(why);
  no_answer_ = no_answer_ || silent;
  address_answered_ = address_answered_ || (!silent && target.socket_name.empty());
  own_failures_ += own ? 1 : 0;
  refusals_ += refusal ? 1 : 0;
  refusals_elsewhere_ += refusal && !own ? 1 : 0;
  hub_gone_ = hub_gone_ || (refusal && target.was_connected);
}

bool Dialer::refused() const {
  if (hub_gone_ || own_failures_ == targets_.size()) return hub_gone_ || refusals_ == targets_.size();
  return refusals_elsewhere_ == targets_.size() - own_failures_;
}

bool Dialer::unanswered() const {
  const bool elsewhere = std::any_of(targets_.begin(), targets_.end(),
                                     [](const DialTarget& target) { return target.socket_name.empty(); });
  return no_answer_ || (elsewhere && !address_answered_);
}

bool Dialer::accepted_in_silence() const {
  return accepted_in_silence_ || std::any_of(attempts_.begin(), attempts_.end(),
                                             [](const auto& attempt) { return attempt && attempt->taken(); });
}

std::string Dialer::progress() const {
  std::string text = reasons_;
  for (std::size_t i = 0; i < next_ && i < attempts_.size(); ++i)
    if (attempts_[i]) text += fmt::format("{}{}: no answer yet", text.empty() ? "" : "; ", text_of(targets_[i]));
  return text;
}

void Dialer::won(std::shared_ptr<Connection> connection) {
  const auto self = shared_from_this();
  const auto done = std::move(done_);
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (attempts_[i] != connection) continue;
    attempts_[i].reset();
    winner_ = i;
  }
  cancel();
  if (done) done(Status(), std::move(connection));
}

}  // namespace tutti
