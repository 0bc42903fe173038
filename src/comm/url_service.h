// Gives ids to those who ask for them by a URL: what rank 0 of tcp://host:port listens for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "comm/acceptor.h"
#include "comm/connection.h"
#include "comm/join.h"

namespace tutti {

class Hub;

/// Hides the secret in an id, or reveals it, with a key that only the two ends of one connection know.
Status mask_id(const Key& connection_key, IdBytes* id);

/// Loop thread only.
class UrlService {
 public:
  explicit UrlService(Hub& hub) : hub_(hub) {}
  ~UrlService();

  /// Gives `id` to those who ask for this round of the URL, which is named by `key` and protected by `secret`. Listens
  /// on the port, unless another round does already.
  Status publish(const KeyId& key, const Key& secret, std::uint16_t port, std::uint64_t round, const IdBytes& id);
  /// The round is over; the port closes with the last one.
  void withdraw(const KeyId& key, std::uint64_t round);

  bool find_secret(const KeyId& key, Key* secret) const;
  void serve(const std::shared_ptr<Connection>& connection);

 private:
  struct Site {
    Key secret{};
    std::unique_ptr<Acceptor> acceptor;
    std::map<std::uint64_t, IdBytes> rounds;
  };
  Status answer(Connection& connection, ByteView payload);
  Hub& hub_;
  std::map<KeyId, Site> sites_;
  std::map<Connection*, std::shared_ptr<Connection>> connections_;
};

}  // namespace tutti
