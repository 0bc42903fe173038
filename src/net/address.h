// IP addresses: those of this host, as text, as socket addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tutti {

/// An IPv4 or IPv6 address without a port, as it travels: family 4 uses the first four bytes.
struct IpAddress {
  std::uint8_t family = 4;  ///< 4 or 6
  std::array<std::byte, 16> bytes{};

  auto operator<=>(const IpAddress&) const = default;
  bool is_loopback() const;
  bool is_link_local() const;
  /// ::ffff:192.0.2.7, as a listener of both families sees an IPv4 address, becomes that address.
  void unmap();
};

struct SocketAddress {
  sockaddr_storage data{};
  socklen_t size = 0;
};

/// `scope`: the number of the interface, for link-local IPv6 addresses.
SocketAddress socket_address(const IpAddress& address, std::uint16_t port, std::uint32_t scope = 0);
/// False: neither IPv4 nor IPv6.
bool from_socket_address(const sockaddr* address, IpAddress* out);

/// "192.0.2.7", "2001:db8::1".
std::string text_of(const IpAddress& address);
/// "192.0.2.7:4711", "[2001:db8::1]:4711".
std::string text_of(const IpAddress& address, std::uint16_t port);

/// Whether an interface of this name is chosen by TUTTI_SOCKET_IFNAME (NCCL's syntax: a list of prefixes, "^" in front
/// excludes the list, "=" demands whole names). An empty rule chooses all.
bool interface_chosen(const std::string& rule, const std::string& name);

/// An address of this host and where it belongs.
struct LocalInterface {
  std::string name;
  IpAddress address;
  int prefix = 0;  ///< so many bits of the address are those of its network
};

/// Addresses under which other hosts may reach this one: interfaces that are up and chosen by the rule, IPv4 before
/// IPv6, virtual bridges (docker*, virbr*) last; link-local ones only when there is nothing better, and loopback only
/// when there is nothing else at all. A rule that matches nothing is kInvalidUsage and named with its `source`.
Status local_interfaces(const std::string& rule, const std::string& source, std::vector<LocalInterface>* interfaces);
Status local_addresses(const std::string& rule, const std::string& source, std::vector<IpAddress>* addresses);

/// The interfaces of this host that have a link-local IPv6 address: on one of them a peer's may be reached.
std::vector<std::uint32_t> link_scopes();

/// Whether this host itself has the address: who connects to it reaches nobody else.
bool is_own_address(const IpAddress& address);

/// Resolves a host name or a literal address. Blocks as long as the resolver does.
Status resolve(const std::string& host, std::vector<IpAddress>* addresses);

}  // namespace tutti
