// Covers net/local_network.cc.
// The network that other hosts reach this one by: its name, and the rate of its card.
#include "net/local_network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tutti {
namespace {

LocalInterface interface_with(const char* address, int prefix) {
  LocalInterface interface { "eth0", {}, prefix };
  interface.address.family = std::string(address).find(':') == std::string::npos ? 4 : 6;
  const int family = interface.address.family == 4 ? AF_INET : AF_INET6;
  EXPECT_EQ(::inet_pton(family, address, interface.address.bytes.data()), 1) << address;
  return interface;
}

TEST(LocalNetwork, IsNamedByInterfaceAndNetwork) {
  EXPECT_EQ(network_name(interface_with("10.1.255.77", 16)), "eth0-10.1.0.0-16");
  EXPECT_EQ(network_name(interface_with("192.0.2.77", 26)), "eth0-192.0.2.64-26");
  EXPECT_EQ(network_name(interface_with("192.0.2.77", 32)), "eth0");
  EXPECT_EQ(network_name(interface_with("192.0.2.77", 0)), "eth0-0.0.0.0-0");
  EXPECT_EQ(network_name(interface_with("fd00:1::5:77", 64)), "eth0-fd00-1---64");
  LocalInterface label = interface_with("192.0.2.77", 24);
  label.name = "eth0:/../a";
  EXPECT_EQ(network_name(label), "eth0--..-a-192.0.2.0-24");
}

TEST(LocalNetwork, OfTheLoopbackIsNone) {
  Settings settings;
  settings.socket_interface = "=lo";
  EXPECT_EQ(local_network(settings).name, "");
  settings.socket_interface = "=none";
  EXPECT_EQ(local_network(settings).name, "");
}

TEST(LocalNetwork, HasTheRateOfACardOrABond) {
  char name[] = "/tmp/tutti-test-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto rate_if = [&](const char* speed) {
    std::ofstream(folder + "/speed") << speed;
    return card_rate(folder);
  };
  EXPECT_EQ(rate_if("10000\n"), 0) << "it is neither";
  std::filesystem::create_directory(folder + "/device");
  EXPECT_EQ(rate_if("100000\n"), 100'000);
  for (const char* unknown : {"-1\n", "4294967295\n", "0\n", "", "fast\n"}) EXPECT_EQ(rate_if(unknown), 0) << unknown;
  std::filesystem::remove(folder + "/speed");
  EXPECT_EQ(card_rate(folder), 0) << "nobody says it";
  std::filesystem::remove(folder + "/device");
  std::filesystem::create_directory(folder + "/bonding");
  EXPECT_EQ(rate_if("50000\n"), 50'000);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tutti
