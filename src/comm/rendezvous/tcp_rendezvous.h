// A TCP port as a meeting point: rank 0 listens there and gives the id to the others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "net/crypto.h"

namespace tutti {

/// How to recognise each other at the port.
struct RendezvousKeys {
  KeyId id{};         ///< of port and job: ranks of another job are told apart
  Key secret{};       ///< from TUTTI_SECRET_FILE; without it a public constant: who comes first is let in
  bool open = false;  ///< without a secret
  bool tls = false;   ///< ask over TLS
};
/// `job` tells launches apart that use the same port. A secret file that cannot be read, is empty or can be read by
/// others is kInvalidUsage.
Status rendezvous_keys(const Settings& settings, std::uint16_t port, const std::string& job, RendezvousKeys* keys);

/// Rank 0: gives `id` to those who ask for this round. A port that is in use is tried again for 10 s, or until the
/// deadline: it may be the local end of somebody's connection. Blocks as long; `url` is for messages.
Status publish_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::string& url,
                  std::uint16_t port, std::uint64_t round, const IdBytes& id, Deadline deadline);
void withdraw_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, std::uint64_t round);

/// The others: asks until it is given or the deadline has passed. Blocks.
Status ask_for_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::string& host,
                  std::uint16_t port, std::uint64_t round, Rank rank, Deadline deadline, IdBytes* id);

}  // namespace tutti
