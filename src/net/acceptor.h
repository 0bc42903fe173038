// Acceptor: a listening socket of the hub, and PendingConnections: who watches over the connections that have not
// proved anything yet.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/event_loop.h"

namespace tutti {

/// Lets connections through their handshake and hands over those that pass. Those over TCP may take an eighth of the
/// process's descriptors. If there is one more, a connection that has said least is dropped; among equals it is one of
/// the address that has most of them, drawn at random. So many connections from one host push each other out, not those
/// of others. Loop thread only.
class PendingConnections {
 public:
  static constexpr std::size_t kMostPending = 512;
  using Admit = std::function<void(const std::shared_ptr<Connection>& connection)>;
  /// Whether anybody may be expected at this end of a TCP connection.
  using Expected = std::function<bool(const Socket& connected)>;

  /// Called once a second while there is no descriptor or memory left to accept a connection with.
  using Lack = std::function<void(const Status& why)>;

  struct Callbacks {
    KeyLookup lookup;
    Admit admit;
    Expected expected;
    Lack lack;
  };
  PendingConnections(EventLoop& loop, Callbacks callbacks);
  ~PendingConnections();
  void receive(Socket connected);
  /// At most so many over TCP.
  std::size_t most() const;
  void lacks(const Status& why) { callbacks_.lack(why); }

 private:
  struct Pending {
    std::shared_ptr<Connection> connection;
    IpAddress from;
  };
  void forget(const Connection* connection);
  void drop_one();
  EventLoop& loop_;
  const Callbacks callbacks_;
  std::vector<Pending> unauthenticated_;            // over TCP
  std::vector<std::shared_ptr<Connection>> local_;  // over unix sockets: this user's own processes
};

/// Listens from its creation to its destruction. Loop thread only, except that it may be created anywhere before the
/// loop runs.
class Acceptor {
 public:
  /// All local addresses, IPv4 and IPv6, on the first free port of the range (0: any).
  static Status listen_tcp(EventLoop& loop, PendingConnections& pending, std::uint16_t first, std::uint16_t last,
                           std::unique_ptr<Acceptor>* acceptor);
  static Status listen_unix(EventLoop& loop, PendingConnections& pending, const std::string& name,
                            std::unique_ptr<Acceptor>* acceptor);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  std::uint16_t port() const { return port_; }
  /// TCP: whether it serves IPv6, too, and not IPv4 alone.
  bool serves_ipv6() const;

 private:
  class Source;
  Acceptor(EventLoop& loop, std::shared_ptr<Source> source, std::uint16_t port);
  static Status open(EventLoop& loop, std::shared_ptr<Source> source, std::uint16_t port,
                     std::unique_ptr<Acceptor>* acceptor);
  EventLoop& loop_;
  std::shared_ptr<Source> source_;
  std::uint16_t port_;
};

}  // namespace tutti
