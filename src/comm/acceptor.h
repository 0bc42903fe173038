// Acceptor: a listening socket of the hub, and Doorman: who watches over the connections that have not proved anything
// yet.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "comm/connection.h"
#include "comm/event_loop.h"

namespace tutti {

/// Lets connections through their handshake and hands over those that pass. At most kMaxStrangers are in it at a time;
/// one more, and the one that has been there longest is dropped. Loop thread only.
class Doorman {
 public:
  static constexpr std::size_t kMaxStrangers = 512;
  using Admit = std::function<void(const std::shared_ptr<Connection>& connection)>;

  Doorman(EventLoop& loop, KeyLookup lookup, Admit admit)
      : loop_(loop), lookup_(std::move(lookup)), admit_(std::move(admit)) {}
  ~Doorman();
  void receive(Socket connected);

 private:
  void forget(const Connection* connection);
  EventLoop& loop_;
  KeyLookup lookup_;
  Admit admit_;
  std::deque<std::shared_ptr<Connection>> strangers_;
};

/// Listens from its creation to its destruction. Loop thread only, except that it may be created anywhere before the
/// loop runs.
class Acceptor {
 public:
  /// All local addresses, IPv4 and IPv6, on the first free port of the range (0: any).
  static Status listen_tcp(EventLoop& loop, Doorman& doorman, std::uint16_t first, std::uint16_t last,
                           std::unique_ptr<Acceptor>* acceptor);
  static Status listen_unix(EventLoop& loop, Doorman& doorman, const std::string& name,
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
