#include "comm/membership/peer_process.h"

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRedialPause{100};
/// The pause between two knocks at a peer that is there but has not dialled yet.
constexpr milliseconds kKnock{500};
/// A process that was never reached is tried for so many seconds at least.
constexpr double kLeastTimeout = 1;
/// How often a process is dialled again in a join. If many join at once, each may be refused several times, because a
/// listener holds only so many unauthenticated connections.
constexpr int kMaxRefusals = 20;

}  // namespace

void PeerProcess::connect() {
  if (place_.dials) dial();
}

void PeerProcess::dial() {
  const auto done = [weak = weak_from_this()](const Status& why, const std::shared_ptr<Connection>& connection) {
    if (const auto self = weak.lock()) self->dialed(why, connection);
  };
  dialer_ = std::make_shared<Dialer>(place_.loop, place_.targets, Role::kControl, place_.id, place_.key, done);
  const auto dialer = dialer_;  // dialer_ may fail, and be replaced, before start() returns
  dialer->start();
}

void PeerProcess::dial_later(milliseconds pause) {
  retry_ = place_.loop.after(pause, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->retry_ = 0;
    if (self->owner_.lives(*self)) self->dial();
  });
}

void PeerProcess::set_ranks(const std::vector<Rank>& ranks, const std::string& name) {
  place_.ranks = ranks;
  place_.name = name;
}

void PeerProcess::dialed(const Status& why, const std::shared_ptr<Connection>& connection) {
  if (!connection) return dial_failed(why);
  if (!place_.dials) {  // the peer lives, and will dial when it has noticed the loss
    connection->close();
    return dial_later(kKnock);
  }
  if (!was_connected_) log_choice();
  connection->send(MessageType::kIntroduce, encode(IntroduceMessage{place_.self}));
  adopt(connection);
}

void PeerProcess::dial_failed(const Status& why) {
  if (was_connected_) return dialer_->refused() ? give_up("") : dial_later(kRedialPause);
  if (place_.late) {  // the peer may have left, and the message about that be on its way
    if (give_up_ == 0) give_up_after(std::max(place_.timeout, kLeastTimeout));
    unanswered_ = true;
    dial_later(kRedialPause);
    return owner_.on_unanswered(*this);
  }
  refusals_ += why.code() == Code::kTimeout ? kMaxRefusals / 4 : 1;
  const bool pushed_out = why.code() == Code::kRemoteError || why.code() == Code::kTimeout;
  if (pushed_out && refusals_ <= kMaxRefusals) return dial_later(kRedialPause * refusals_);
  const Code code = is_lack(why) ? Code::kSystemError : Code::kRemoteError;
  owner_.on_unreachable(*this, fail(code, "cannot connect to {}: {}", place_.name, why.text()));
}

void PeerProcess::log_choice() const {
  const DialTarget& winner = dialer_->winner();
  std::string offered;
  for (const DialTarget& target : place_.targets) offered += (offered.empty() ? "" : ", ") + text_of(target);
  const LogLevel level = winner.socket_name.empty() ? LogLevel::kInfo : LogLevel::kDebug;
  log(level, {}, "{} is reached by {}, of {}", place_.name, text_of(winner), offered);
}

void PeerProcess::accept(const std::shared_ptr<Connection>& connection) {
  // Within a host a connection ends with its process. While there is one, a connection over the network is not from
  // that process.
  const bool is_near = connection_ && connection_->is_unix();
  if (is_near && !connection->is_unix()) return connection->close();
  const bool both_dial = place_.late && place_.dials && !dead_;
  const bool gets_near = connection_ && !is_near && connection->is_unix();
  if (both_dial && connection_ && place_.senior && !gets_near) return connection->close();
  if (both_dial) withdraw();
  adopt(connection);
}

/// Closes this end's connection, because the other end's is the one that stays.
void PeerProcess::withdraw() {
  stop_dialling();
  place_.dials = false;
  was_connected_ = false;
  linked = false;
  if (!connection_) return;
  connection_->close();
  connection_.reset();
  owner_.on_disconnected(*this);
}

void PeerProcess::adopt(const std::shared_ptr<Connection>& connection) {
  if (dead_) return turn_away(connection);
  const bool again = std::exchange(was_connected_, true);
  if (again && (!linked || connection->is_unix())) return connection->close();
  if (connection_) {  // the peer has noticed the loss and dialled before this end heard of it
    connection_->close();
    connection_.reset();
    owner_.on_disconnected(*this);
  }
  stop_dialling();
  unanswered_ = false;
  connection_ = connection;
  remember_way(*connection);
  const auto weak = weak_from_this();
  ConnectionEvents events;
  events.on_message = [weak](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    if (!self) return Status();
    self->heard();
    return self->owner_.on_message(*self, type, payload);
  };
  events.on_close = [weak](const Status& why) {
    if (const auto self = weak.lock()) self->on_close(why);
  };
  connection->set_events(std::move(events));
  connection->set_timeout(place_.timeout);
  owner_.on_connected(*this, again);
}

/// Remembers the address that carried the connection, whichever end dialled: if it refuses connections later, the
/// process is gone. The peer's other addresses may never have worked, or belong to another host by now. If the address
/// is none of the known ones, something such as an address translation is in between.
void PeerProcess::remember_way(const Connection& connection) {
  IpAddress address;
  std::uint32_t scope = 0;
  if (!connection.peer(&address, &scope)) return;
  for (DialTarget& target : place_.targets)
    target.was_connected = target.socket_name.empty() && target.address == address && target.scope == scope;
  std::stable_partition(place_.targets.begin(), place_.targets.end(),
                        [](const DialTarget& target) { return target.was_connected; });
}

/// The peer reads what on_late_return() sends and closes the connection, or this end closes it a little later.
void PeerProcess::turn_away(const std::shared_ptr<Connection>& connection) {
  connection->set_events({});
  owner_.on_late_return(*connection);
  place_.loop.after(kKnock, [connection] { connection->close(); });
}

void PeerProcess::heard() {
  place_.loop.cancel(give_up_);
  give_up_ = 0;
}

void PeerProcess::send(MessageType type, ByteView payload) {
  if (connection_) connection_->send(type, payload);
}

void PeerProcess::on_close(const Status& why) {
  const bool was_unix = connection_->is_unix();
  connection_.reset();
  owner_.on_disconnected(*this);
  if (!owner_.lives(*this)) return;
  log(LogLevel::kDebug, {}, "the connection to {} ended: {}", place_.name, why.text());
  if (!linked && !place_.late && is_lack(why))
    return owner_.on_unreachable(*this, fail(why.code(), "cannot join with {}: {}", place_.name, why.text()));
  // The peer may have closed it before this end could introduce itself.
  if (!linked && place_.dials && ++refusals_ <= kMaxRefusals) {
    was_connected_ = false;
    return dial_later(kRedialPause * refusals_);
  }
  // The system has tried for as long as this process would, and a silent peer is not given the same time twice.
  if (is_unreachable(why)) return give_up(fmt::format("not reachable for {:.3g} s", place_.timeout));
  const bool joins = !linked && !place_.late;
  if (was_unix || place_.timeout <= 0 || joins)
    return give_up(joins && !was_unix ? "the connection to it was lost" : "");
  lost(why);
}

void PeerProcess::lost(const Status& why) {
  if (give_up_ != 0) return dial_later(kRedialPause);  // it was back, but sent nothing, so its time goes on
  log(LogLevel::kInfo, {}, "the connection to {} was lost ({}): trying again for {:.3g} s", place_.name, why.text(),
      place_.timeout);
  std::erase_if(place_.targets, [](const DialTarget& target) { return !target.socket_name.empty(); });
  give_up_after(place_.timeout);
  dial();
}

void PeerProcess::give_up_after(double seconds) {
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  give_up_ = place_.loop.after(timeout, [weak = weak_from_this(), seconds] {
    const auto self = weak.lock();
    if (!self || !self->owner_.lives(*self)) return;
    const bool has_ended = self->dialer_ && self->dialer_->refused();
    self->give_up(has_ended ? "" : fmt::format("not reachable for {:.3g} s", seconds));
  });
}

void PeerProcess::stop_dialling() {
  if (dialer_) dialer_->cancel();
  dialer_.reset();
  place_.loop.cancel(retry_);
  retry_ = 0;
}

void PeerProcess::give_up(const std::string& note) {
  const auto self = shared_from_this();
  close();
  dead_ = true;
  owner_.on_disconnected(*this);
  owner_.on_death(*this, note);
}

void PeerProcess::close() {
  stop_dialling();
  heard();
  if (connection_) connection_->close();
  connection_.reset();
}

}  // namespace tutti
