// Covers net/address.cc.
// Addresses: which are this host's own, and which are the same.
#include "net/address.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/loopback.h"

namespace tutti {
namespace {

TEST(Addresses, OwnOnesAreKnown) {
  std::vector<IpAddress> own;
  ASSERT_TRUE(local_addresses("", "", &own).ok());
  for (const IpAddress& address : own) EXPECT_TRUE(is_own_address(address)) << text_of(address, 0);
  EXPECT_TRUE(is_own_address(test::loopback(7)));
  IpAddress documentation;  // RFC 5737: no host has it
  documentation.bytes = {std::byte{198}, std::byte{51}, std::byte{100}, std::byte{1}};
  EXPECT_FALSE(is_own_address(documentation));
}

TEST(Addresses, MappedOnesAreIpv4) {
  IpAddress mapped;
  mapped.family = 6;
  mapped.bytes[10] = mapped.bytes[11] = std::byte{0xff};
  std::copy_n(test::loopback().bytes.begin(), 4, mapped.bytes.begin() + 12);
  mapped.unmap();
  EXPECT_EQ(mapped, test::loopback());
  IpAddress other;
  other.family = 6;
  other.bytes[15] = std::byte{1};
  const IpAddress before = other;
  other.unmap();
  EXPECT_EQ(other, before);
}

TEST(Addresses, ARuleThatMatchesNothingIsNamedAsItWasGiven) {
  std::vector<IpAddress> addresses;
  const Status status = local_addresses("=no-such-interface", "NCCL_SOCKET_IFNAME", &addresses);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("NCCL_SOCKET_IFNAME=="), std::string::npos) << status.text();
  EXPECT_EQ(status.text().find("TUTTI_"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace tutti
