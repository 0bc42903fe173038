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
  KeyId id{};         ///< made of port and job, so that ranks of another job are told apart
  Key secret{};       ///< from TUTTI_SECRET_FILE; without that it is a public constant, and anybody can join
  bool open = false;  ///< there is no secret file
  bool tls = false;   ///< ask over TLS
};
/// `job` tells launches apart that use the same port. Returns kInvalidUsage for the secret file as secret_file_key()
/// does.
Status rendezvous_keys(const Settings& settings, std::uint16_t port, const std::string& job, RendezvousKeys* keys);

/// Makes rank 0 give `id` to those who ask for this round. If the port is in use, it is tried again for 10 s, or until
/// the deadline, because it may be the local end of somebody's connection; the call blocks so long. `url` is for
/// messages.
Status publish_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::string& url,
                  std::uint16_t port, std::uint64_t round, const IdBytes& id, Deadline deadline);
void withdraw_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, std::uint64_t round);

/// Called by the other ranks. Asks, and blocks, until the id is given or the deadline has passed.
Status ask_for_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::string& host,
                  std::uint16_t port, std::uint64_t round, Rank rank, Deadline deadline, IdBytes* id);

}  // namespace tutti
