#include "net/local_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/text_file.h"

namespace tutti {
std::string network_name(const LocalInterface& interface) {
  IpAddress network = interface.address;
  std::string name = interface.name;
  if (interface.prefix != (network.family == 4 ? 32 : 128)) {
    for (std::size_t bit = static_cast<std::size_t>(interface.prefix); bit < network.bytes.size() * 8; ++bit)
      network.bytes[bit / 8] &= ~(std::byte{128} >> bit % 8);
    name += fmt::format("-{}-{}", text_of(network), interface.prefix);
  }
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return letter == ':' || letter == '/'; }, '-');
  return name;
}

std::int64_t card_rate(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder + "/device", error) && !std::filesystem::exists(folder + "/bonding", error))
    return 0;
  const std::optional<std::string> text = read_text_file(folder + "/speed", 32);
  const long long rate = text ? std::strtoll(text->c_str(), nullptr, 10) : 0;
  constexpr long long kMostMegabits = 100'000'000;  // who does not know the rate says -1, or 2^32 - 1
  return rate > 0 && rate <= kMostMegabits ? rate : 0;
}

LocalNetwork local_network(const Settings& settings) {
  std::vector<LocalInterface> interfaces;
  const Status found = local_interfaces(settings.socket_interface, settings.socket_interface_source, &interfaces);
  if (!found.ok() || interfaces.empty() || interfaces.front().address.is_loopback()) return {};
  const LocalInterface& first = interfaces.front();
  return {network_name(first), card_rate("/sys/class/net/" + first.name)};
}

}  // namespace tutti
