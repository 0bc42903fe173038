// A peer process: another process of a communicator, and the control connection to it.
//
// The connection is made once in a join. One over TCP that ends later is made again: the process at its other end
// counts as alive until its host refuses where it was reached, or until it could not be reached for TUTTI_RECONNECT
// seconds. Of each pair of processes one dials; the other then only knocks, to find out whether somebody is there.
// After the join either may make a connection that is not there yet; of two made at the same time the senior's stays.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/messages.h"
#include "net/connection.h"
#include "net/dialer.h"

namespace tutti {

class PeerProcess;

/// What happens to a peer process. Loop thread. An interface, because its implementation, the process membership,
/// includes this file.
class PeerOwner {
 public:
  virtual ~PeerOwner() = default;
  virtual Status on_message(PeerProcess& peer, MessageType type, ByteView payload) = 0;
  /// `again`: what the peer was told before may be lost.
  virtual void on_connected(PeerProcess& peer, bool again) = 0;
  /// A peer that was given up has come back, too late. It is to be told that it is on its own.
  virtual void on_late_return(Connection& connection) = 0;
  virtual void on_disconnected(PeerProcess& peer) = 0;
  /// It cannot be reached, and never was. The join cannot go on without it.
  virtual void on_unreachable(PeerProcess& peer, const Status& why) = 0;
  /// After the join: it has not answered yet, and perhaps is not there any more.
  virtual void on_unanswered(PeerProcess& peer) = 0;
  /// It is dead. `note`: "not reachable for 10 s"; empty: it has ended.
  virtual void on_death(PeerProcess& peer, const std::string& note) = 0;
  /// Whether any of its ranks lives, as far as it said.
  virtual bool lives(const PeerProcess& peer) const = 0;
};

/// Loop thread only. The owner outlives it, or closes it.
class PeerProcess : public std::enable_shared_from_this<PeerProcess> {
 public:
  struct Place {
    EventLoop& loop;
    KeyId id;
    Key key;                          ///< that the peer asks for
    ProcessId self{};                 ///< who we are
    ProcessId process{};              ///< who it is
    std::vector<Rank> ranks;          ///< that it has
    std::string name;                 ///< "ranks 2 and 3 (process 12 on host b)"
    std::vector<DialTarget> targets;  ///< a unix socket first, where there may be one
    bool dials = false;               ///< it is for this end to connect
    bool senior = false;              ///< this end's connection stays
    bool late = false;                ///< made after the join
    double timeout = 10;              ///< seconds
  };
  PeerProcess(PeerOwner& owner, Place place) : owner_(owner), place_(std::move(place)) {}

  const std::vector<Rank>& ranks() const { return place_.ranks; }
  const ProcessId& process() const { return place_.process; }
  const std::string& name() const { return place_.name; }
  bool dials() const { return place_.dials; }
  /// The first connection, if this end dials.
  void connect();
  /// A connection that the peer has introduced itself on.
  void accept(const std::shared_ptr<Connection>& connection);
  /// Before the table only the one rank is known that the root named.
  void set_ranks(const std::vector<Rank>& ranks, const std::string& name);
  void close();

  /// nullptr: down at the moment.
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  /// Does nothing while it is down: who cares says it again in on_connected().
  void send(MessageType type, ByteView payload);
  /// Before the first connection: what was tried so far.
  std::string progress() const { return dialer_ && !was_connected_ ? dialer_->progress() : std::string(); }

  /// After the join: never reached so far, though it was tried.
  bool unanswered() const { return unanswered_; }

  bool linked = false;  ///< it has said that the connection counts

 private:
  void dial();
  void adopt(const std::shared_ptr<Connection>& connection);
  void remember_way(const Connection& connection);
  void withdraw();
  void dialed(const Status& why, const std::shared_ptr<Connection>& connection);
  void dial_failed(const Status& why);
  void on_close(const Status& why);
  void lost(const Status& why);
  void heard();
  void give_up(const std::string& note);
  void dial_later(std::chrono::milliseconds pause);
  void give_up_after(double seconds);
  void stop_dialling();
  void turn_away(const std::shared_ptr<Connection>& connection);
  void log_choice() const;

  PeerOwner& owner_;
  Place place_;
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<Connection> connection_;
  bool was_connected_ = false;
  bool dead_ = false;  // given up
  bool unanswered_ = false;
  int refusals_ = 0;  // connections that it closed in the join
  EventLoop::TimerId retry_ = 0;
  EventLoop::TimerId give_up_ = 0;  // runs from a loss until something is heard again
};

}  // namespace tutti
