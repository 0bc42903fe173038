// Dialer: connects to one of several addresses of the same hub and proves itself there.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/event_loop.h"

namespace tutti {

/// One way to reach a hub: the name of an abstract unix socket, or an IP address and a port.
struct DialTarget {
  std::string socket_name;
  IpAddress address;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;     ///< the interface, for a link-local IPv6 address
  bool tls = false;            ///< encrypt; not for unix sockets
  bool was_connected = false;  ///< the hub was there: when nobody listens here any more, it is gone
};
std::string text_of(const DialTarget& target);
/// All ways to reach what listens on `port` at these addresses.
std::vector<DialTarget> tcp_targets(const std::vector<IpAddress>& addresses, std::uint16_t port, bool tls);

/// Tries the targets in order, the next one when one fails or is silent for 250 ms (RFC 8305 calls it happy eyeballs);
/// the first that passes the handshake wins. Loop thread only.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  /// `connection` is null when all targets failed; then `why` says how each did. Called once, not after cancel().
  using Done = std::function<void(const Status& why, std::shared_ptr<Connection> connection)>;

  Dialer(EventLoop& loop, std::vector<DialTarget> targets, Role role, const KeyId& id, const Key& secret, Done done);
  void start();
  void cancel();
  /// In the call of `done`: the target that won.
  const DialTarget& winner() const { return targets_[winner_]; }
  /// In the call of `done`: the hub's host said that nobody listens, where it was connected or, for want of such a
  /// target, at all of them; what this host has to say of addresses that are also its own does not count.
  bool refused() const;
  /// In the call of `done`: no target has refused, or one has not answered at all. Another try may succeed.
  bool unanswered() const;
  /// So far, or in the call of `done`: a host has taken a connection, but nobody there has said anything.
  bool accepted_in_silence() const;
  /// "10.0.0.2:4000: connection refused; [2001:db8::1]:4000: no answer yet".
  std::string progress() const;

 private:
  void try_next();
  void try_target(std::size_t index);
  void try_later(std::size_t index, std::chrono::milliseconds pause);
  void failed(std::size_t index, const Status& why);
  bool was_let_go(const DialTarget& target, const Status& why);
  void count_failure(const DialTarget& target, const Status& why);
  void won(std::shared_ptr<Connection> connection);

  EventLoop& loop_;
  std::vector<DialTarget> targets_;
  Role role_;
  KeyId id_;
  Key secret_;
  Done done_;
  std::vector<std::shared_ptr<Connection>> attempts_;  // by target
  std::size_t next_ = 0;
  std::size_t winner_ = 0;
  std::size_t failures_ = 0;
  std::size_t refusals_ = 0;
  std::size_t own_failures_ = 0;        // at addresses that are this host's own, too
  std::size_t refusals_elsewhere_ = 0;  // at addresses that are not
  int times_let_go_ = 0;                // connections that were taken, and closed, where the hub was connected
  bool no_answer_ = false;              // from the host of a target that failed
  bool address_answered_ = false;       // by the host of an address that failed, or whoever has its place
  bool hub_gone_ = false;               // nobody listens where it was connected
  bool accepted_in_silence_ = false;    // by a target that failed
  std::string reasons_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace tutti
