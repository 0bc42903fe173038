// The unique id is the 128 bytes that let ranks find each other and prove that they belong together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/crypto.h"

namespace tutti {

/// The 128 bytes of tuttiUniqueId.
using IdBytes = std::array<std::byte, 128>;

/// What the bytes say. encode() writes magic and version (8), secret (32), nonce (16), port (2), number of addresses
/// (1), zero (1), and four times family (1) and address (16).
struct UniqueId {
  static constexpr std::size_t kMaxAddresses = 4;

  Key secret{};
  KeyId nonce{};           ///< public; it names the id on the wire
  std::uint16_t port = 0;  ///< 0 if the root is reachable by unix socket only
  std::vector<IpAddress> addresses;

  IdBytes encode() const;
  /// Returns kInvalidArgument if these bytes were not made by encode().
  static Status decode(const IdBytes& bytes, UniqueId* id);

  /// Gives the name of the abstract unix socket on which the id is also served. Only who has the secret can compute it.
  Status socket_name(std::string* name) const;
  /// Gives a number that is the same on all ranks, different for any other id, and reveals nothing of the secret.
  Status comm_id(std::uint64_t* value) const;
};

}  // namespace tutti
