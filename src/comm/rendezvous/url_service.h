// The URL service gives ids to those who ask for them by tcp://host:port. It runs on rank 0.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"
#include "net/acceptor.h"
#include "net/connection.h"

namespace tutti {

/// Hides the secret in an id, or reveals it. `connection_key` is known to both ends of one connection, and to everybody
/// if there is no secret file. `own` and `others` make a key that only the two ends know.
Status mask_id(const Key& connection_key, const KeyAgreement& own, const Key& others, IdBytes* id);

/// Loop thread only.
class UrlService final : public HubService {
 public:
  static constexpr Role kRole = Role::kAskId;
  explicit UrlService(Hub& hub) : hub_(hub) {}
  ~UrlService() override;

  /// Gives `id` to those who ask for this round of the URL, which is named by `key` and protected by `secret`. Listens
  /// on the port, unless another round does already.
  Status publish(const KeyId& key, const Key& secret, std::uint16_t port, std::uint64_t round, const IdBytes& id);
  /// The round is over; the port closes with the last one.
  void withdraw(const KeyId& key, std::uint64_t round);

  bool find_secret(const KeyId& key, Key* secret) const override;
  /// Connections are expected at the port of a URL, at any address, because the URL names one.
  Expected expects(const Arrival& arrival) const override;
  /// Without a secret file anybody may come this far. So a connection has 10 s for its question, and if there are more
  /// than kMostConnections, the oldest is closed.
  void serve(const std::shared_ptr<Connection>& connection) override;
  static constexpr std::size_t kMostConnections = 256;

 private:
  struct Site {
    Key secret{};
    std::uint16_t port = 0;
    std::unique_ptr<Acceptor> acceptor;
    std::map<std::uint64_t, IdBytes> rounds;
  };
  Status answer(Connection& connection, ByteView payload);
  void forget(const Connection* connection);
  Hub& hub_;
  std::map<KeyId, Site> sites_;
  std::list<std::shared_ptr<Connection>> connections_;  // the oldest first
};

}  // namespace tutti
