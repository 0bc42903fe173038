// A peer process is another process of a communicator, with the control connection to it.
//
// The connection is made once in a join. If a connection over TCP ends later, it is made again: the process at its
// other end counts as alive until its host refuses connections at the address that worked before, or until it could not
// be reached for TUTTI_RECONNECT seconds. One process of each pair dials. When a connection is lost, the other one only
// knocks: it connects to find out whether the peer is there, and closes the connection again. After the join either may
// make a connection that is not there yet; if both do so at the same time, that of the senior one stays, which comes
// later in the order of processes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/messages/messages.h"
#include "net/connection.h"
#include "net/dialer.h"

namespace tutti {

class PeerProcess;

/// Hears what happens to a peer process. Loop thread only. It is an interface, because its implementation, the process
/// membership, includes this file.
class PeerOwner {
 public:
  virtual ~PeerOwner() = default;
  virtual Status on_message(PeerProcess& peer, MessageType type, ByteView payload) = 0;
  /// `again`: there was a connection before, and what was sent on it may be lost.
  virtual void on_connected(PeerProcess& peer, bool again) = 0;
  /// A peer that was given up has come back too late. The owner sends it the deaths that separate it from the others.
  virtual void on_late_return(Connection& connection) = 0;
  virtual void on_disconnected(PeerProcess& peer) = 0;
  /// The peer cannot be reached, and never was. The join cannot go on without it.
  virtual void on_unreachable(PeerProcess& peer, const Status& why) = 0;
  /// A peer that is dialled after the join has not answered yet, and perhaps is not there any more.
  virtual void on_unanswered(PeerProcess& peer) = 0;
  /// The peer is dead. `note` is a text such as "not reachable for 10 s", or empty if its process has ended.
  virtual void on_death(PeerProcess& peer, const std::string& note) = 0;
  /// Whether any of its ranks lives, as far as is known here.
  virtual bool lives(const PeerProcess& peer) const = 0;
};

/// Loop thread only. The owner outlives it, or closes it.
class PeerProcess : public std::enable_shared_from_this<PeerProcess> {
 public:
  struct Place {
    EventLoop& loop;
    KeyId id;
    Key key;                          ///< the key that the peer asks for
    ProcessId self{};                 ///< this process
    ProcessId process{};              ///< the peer
    std::vector<Rank> ranks;          ///< the peer's ranks
    std::string name;                 ///< "ranks 2 and 3 (process 12 on host b)"
    std::vector<DialTarget> targets;  ///< the unix socket comes first, if the peer may be on this host
    bool dials = false;               ///< this end is the one that connects
    bool senior = false;              ///< if both ends connect at the same time, this end's connection stays
    bool late = false;                ///< this peer was added after the join
    double timeout = 10;              ///< how long a lost connection is tried again, in seconds
  };
  PeerProcess(PeerOwner& owner, Place place) : owner_(owner), place_(std::move(place)) {}

  const std::vector<Rank>& ranks() const { return place_.ranks; }
  const ProcessId& process() const { return place_.process; }
  const std::string& name() const { return place_.name; }
  bool dials() const { return place_.dials; }
  /// Makes the first connection, if this end dials.
  void connect();
  /// Takes a connection on which the peer has introduced itself.
  void accept(const std::shared_ptr<Connection>& connection);
  /// Sets the peer's ranks. Before the table comes, only the one rank is known that the root named.
  void set_ranks(const std::vector<Rank>& ranks, const std::string& name);
  void close();

  /// nullptr while the connection is down.
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  /// Does nothing while the connection is down. The owner's on_connected() sends again what matters.
  void send(MessageType type, ByteView payload);
  /// What was tried so far to make the first connection; empty once there was one.
  std::string progress() const { return dialer_ && !was_connected_ ? dialer_->progress() : std::string(); }

  /// Whether a peer that is dialled after the join has never been reached so far.
  bool unanswered() const { return unanswered_; }

  bool linked = false;  ///< the peer has sent kLinked

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
  bool dead_ = false;  // the peer was given up
  bool unanswered_ = false;
  int refusals_ = 0;  // how many connections the peer closed in the join
  EventLoop::TimerId retry_ = 0;
  EventLoop::TimerId give_up_ = 0;  // runs from a loss until something is heard from the peer again
};

}  // namespace tutti
