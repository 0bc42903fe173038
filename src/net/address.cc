#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

namespace tutti {
namespace {

constexpr int kLast = 4;

/// Only addresses of the lowest kind that a host has are offered: others would lead nowhere, or be this host's own.
int kind_of(const IpAddress& address) { return address.is_loopback() ? 2 : address.is_link_local() ? 1 : 0; }

/// Lower is better.
int preference(const std::string& name, const IpAddress& address) {
  const bool bridge = name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("br-");
  return kLast * kind_of(address) + (bridge ? 2 : 0) + (address.family == 6 ? 1 : 0);
}

}  // namespace

bool IpAddress::is_loopback() const {
  if (family == 4) return bytes[0] == std::byte{127};
  return std::memcmp(bytes.data(), &in6addr_loopback, sizeof(in6addr_loopback)) == 0;
}

bool IpAddress::is_link_local() const {
  const auto first = std::to_integer<unsigned>(bytes[0]);
  const auto second = std::to_integer<unsigned>(bytes[1]);
  if (family == 4) return first == 169 && second == 254;
  return first == 0xfe && (second & 0xc0) == 0x80;
}

void IpAddress::unmap() {
  constexpr unsigned char kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (family != 6 || std::memcmp(bytes.data(), kPrefix, sizeof(kPrefix)) != 0) return;
  IpAddress inner;
  std::copy_n(bytes.begin() + sizeof(kPrefix), 4, inner.bytes.begin());
  *this = inner;
}

SocketAddress socket_address(const IpAddress& address, std::uint16_t port, std::uint32_t scope) {
  SocketAddress result;
  if (address.family == 4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), 4);
    std::memcpy(&result.data, &v4, sizeof(v4));
    result.size = sizeof(v4);
    return result;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (address.is_link_local()) v6.sin6_scope_id = scope;
  std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
  std::memcpy(&result.data, &v6, sizeof(v6));
  result.size = sizeof(v6);
  return result;
}

bool from_socket_address(const sockaddr* address, IpAddress* out) {
  *out = IpAddress{};
  if (address->sa_family == AF_INET) {
    out->family = 4;
    std::memcpy(out->bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return true;
  }
  if (address->sa_family != AF_INET6) return false;
  out->family = 6;
  std::memcpy(out->bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  return true;
}

std::string text_of(const IpAddress& address) {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes.data(), buffer, sizeof(buffer));
  return buffer;
}

std::string text_of(const IpAddress& address, std::uint16_t port) {
  return address.family == 4 ? fmt::format("{}:{}", text_of(address), port)
                             : fmt::format("[{}]:{}", text_of(address), port);
}

bool interface_chosen(const std::string& rule, const std::string& name) {
  if (rule.empty()) return true;
  const bool exclude = rule[0] == '^';
  std::size_t at = exclude ? 1 : 0;
  const bool whole = at < rule.size() && rule[at] == '=';
  if (whole) ++at;
  bool found = false;
  while (at <= rule.size() && !found) {
    const std::size_t end = std::min(rule.find(',', at), rule.size());
    const std::string item = rule.substr(at, std::min(rule.find(':', at), end) - at);
    found = !item.empty() && (whole ? name == item : name.starts_with(item));
    at = end + 1;
  }
  return found != exclude;
}

Status local_interfaces(const std::string& rule, const std::string& source, std::vector<LocalInterface>* interfaces) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return fail(Code::kSystemError, "cannot list network interfaces: {}", errno_text());
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<LocalInterface> found;
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    LocalInterface interface;
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0) continue;
    if (!from_socket_address(item->ifa_addr, &interface.address)) continue;
    if (!interface_chosen(rule, item->ifa_name)) continue;
    interface.name = item->ifa_name;
    IpAddress mask;
    if (item->ifa_netmask != nullptr && from_socket_address(item->ifa_netmask, &mask))
      for (const std::byte byte : mask.bytes) interface.prefix += std::popcount(std::to_integer<unsigned>(byte));
    found.push_back(std::move(interface));
  }
  if (found.empty() && !rule.empty())
    return fail(Code::kInvalidUsage, "no network interface that is up matches {}={}", source, rule);
  std::stable_sort(found.begin(), found.end(), [](const LocalInterface& a, const LocalInterface& b) {
    return preference(a.name, a.address) < preference(b.name, b.address);
  });
  interfaces->clear();
  for (const LocalInterface& interface : found)
    if (kind_of(interface.address) == kind_of(found.front().address)) interfaces->push_back(interface);
  return {};
}

Status local_addresses(const std::string& rule, const std::string& source, std::vector<IpAddress>* addresses) {
  std::vector<LocalInterface> interfaces;
  TUTTI_TRY(local_interfaces(rule, source, &interfaces));
  addresses->clear();
  for (const LocalInterface& interface : interfaces) addresses->push_back(interface.address);
  return {};
}

std::vector<std::uint32_t> link_scopes() {
  std::vector<std::uint32_t> scopes;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return scopes;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    IpAddress address;
    if (item->ifa_addr == nullptr || !from_socket_address(item->ifa_addr, &address)) continue;
    if (address.family == 6 && address.is_link_local()) scopes.push_back(::if_nametoindex(item->ifa_name));
  }
  return scopes;
}

bool is_own_address(const IpAddress& address) {
  if (address.is_loopback()) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    IpAddress own;
    if (item->ifa_addr != nullptr && from_socket_address(item->ifa_addr, &own) && own == address) return true;
  }
  return false;
}

Status resolve(const std::string& host, std::vector<IpAddress>* addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0)
    return fail(Code::kSystemError, "cannot resolve host \"{}\": {}", host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  addresses->clear();
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    IpAddress address;
    if (from_socket_address(item->ai_addr, &address)) addresses->push_back(address);
  }
  if (addresses->empty()) return fail(Code::kSystemError, "host \"{}\" has no IP address", host);
  return {};
}

}  // namespace tutti
