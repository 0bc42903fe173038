// Wiring for tests of the tcp endpoint: pairs of loopback connections, made when either end asks, and cut, delayed or
// damaged on demand.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/tcp/tcp.h"
#include "transport/world.h"

namespace tutti::testing_traffic {

/// Two connected loopback sockets, non-blocking.
inline void tcp_pair(Descriptor* first, Descriptor* second) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  require(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size) == 0 && ::listen(listener.get(), 1) == 0 &&
              ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0,
          "cannot listen on the loopback");
  first->reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(::connect(first->get(), reinterpret_cast<sockaddr*>(&at), size) == 0, "cannot connect on the loopback");
  second->reset(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  for (const Descriptor* end : {first, second}) {
    ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(end->get(), F_SETFL, ::fcntl(end->get(), F_GETFL) | O_NONBLOCK);
  }
}

/// The same with little room to send: it is full most of the time.
inline void narrow_tcp_pair(Descriptor* first, Descriptor* second) {
  tcp_pair(first, second);
  const int bytes = 16384;
  for (const Descriptor* end : {first, second}) ::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/// Encrypts both ends of a connection.
inline void encrypt_pair(TcpStream* first, TcpStream* second) {
  const TlsKey key{std::byte{1}};
  const auto lookup = [key](std::string_view, TlsKey* found) { return *found = key, true; };
  require(TlsSession::client(first->socket.get(), "test", key, &first->tls).ok(), "no TLS client");
  require(TlsSession::server(second->socket.get(), lookup, &second->tls).ok(), "no TLS server");
  while (!first->tls->established() || !second->tls->established()) {
    SocketState state = SocketState::kDone;
    require(first->tls->handshake(&state).ok() && second->tls->handshake(&state).ok(), "no TLS handshake");
  }
}

/// What the wirings of a world share. Thread-safe.
class TcpFabric {
 public:
  /// Makes what stands between the two ends; the default connects them directly.
  using Connect = std::function<void(Descriptor* first, Descriptor* second)>;

  explicit TcpFabric(int ranks, Connect connect = tcp_pair, bool tls = false)
      : connect_(std::move(connect)), tls_(tls) {
    for (Rank rank{0}; rank.value < ranks; ++rank) wirings_.push_back(std::make_unique<Wiring>(*this, rank));
  }
  /// From now on this rank counts as gone.
  void end(Rank rank) { ended_.store(rank.value, std::memory_order_relaxed); }
  TcpStreamSource& tcp_streams(Rank rank) { return *wirings_[static_cast<std::size_t>(rank.value)]; }

 private:
  class Wiring final : public TcpStreamSource {
   public:
    Wiring(TcpFabric& fabric, Rank rank) : fabric_(fabric), rank_(rank) {}
    void want(Rank peer, Lane lane) override { fabric_.connect(rank_, peer, lane); }
    bool take(Rank peer, Lane lane, TcpStream* stream) override {
      const std::lock_guard lock(mutex_);
      const auto found = ready_.find({peer, lane});
      if (found == ready_.end()) return false;
      *stream = std::move(found->second);
      ready_.erase(found);
      return true;
    }
    void set_listener(std::function<void()> listener) override {
      const std::lock_guard lock(mutex_);
      listener_ = std::move(listener);
    }
    bool gone(Rank peer) const override { return fabric_.ended_.load(std::memory_order_relaxed) == peer.value; }
    bool has(Rank peer, Lane lane) {
      const std::lock_guard lock(mutex_);
      return ready_.contains({peer, lane});
    }
    void deliver(Rank peer, Lane lane, TcpStream stream) {
      const std::lock_guard lock(mutex_);
      ready_[{peer, lane}] = std::move(stream);
      arrivals_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in arrivals()
      if (listener_) listener_();
    }

   private:
    TcpFabric& fabric_;
    const Rank rank_;
    std::mutex mutex_;
    std::map<std::pair<Rank, Lane>, TcpStream> ready_;
    std::function<void()> listener_;
  };

  /// One connection serves both ends: a wish made while a stream waits to be taken is served already.
  void connect(Rank from, Rank to, Lane lane) {
    const std::lock_guard lock(mutex_);
    if (wirings_[static_cast<std::size_t>(from.value)]->has(to, lane)) return;
    TcpStream first;
    TcpStream second;
    connect_(&first.socket, &second.socket);
    if (tls_) encrypt_pair(&first, &second);
    wirings_[static_cast<std::size_t>(to.value)]->deliver(from, lane, std::move(second));
    wirings_[static_cast<std::size_t>(from.value)]->deliver(to, lane, std::move(first));
  }

  const Connect connect_;
  const bool tls_;
  std::atomic<int> ended_{-1};  // relaxed: the test orders it
  std::mutex mutex_;            // one connection is made at a time
  std::vector<std::unique_ptr<Wiring>> wirings_;
};

inline std::unique_ptr<TcpEndpoint> open_tcp(TcpFabric& fabric, WorldSize size, Rank rank, bool checksum = false) {
  TcpEndpoint::Place place{rank, size.ranks, size.lanes, {rank}};
  std::unique_ptr<TcpEndpoint> endpoint;
  const TcpGeometry geometry{size.max_message, 8, checksum};
  const Status status = TcpEndpoint::open(fabric.tcp_streams(rank), geometry, std::move(place), {}, &endpoint);
  require(status.ok(), status.text());
  return endpoint;
}

/// Runs a body a rank, and hands on what each sent last for as long as another rank may wait for it, as the end of a
/// call does.
inline void run_bodies(TcpFabric& fabric, WorldSize size, const std::function<void(TcpEndpoint&)>& body,
                       bool checksum = false) {
  std::atomic<int> done{0};  // relaxed: only counts
  run_threads(size.ranks, [&](Rank rank) {
    const std::unique_ptr<TcpEndpoint> endpoint = open_tcp(fabric, size, rank, checksum);
    const std::string failure = outcome([&] { body(*endpoint); });
    done.fetch_add(1, std::memory_order_relaxed);
    const Deadline deadline = Deadline::in(test::kFarSeconds);
    while (failure.empty() && done.load(std::memory_order_relaxed) < size.ranks && !deadline.passed()) {
      endpoint->make_progress();
      ::sched_yield();
    }
    require(failure.empty(), failure);
  });
}

}  // namespace tutti::testing_traffic
