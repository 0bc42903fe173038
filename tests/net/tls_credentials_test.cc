// Covers net/tls_credentials.cc.
// Identities and keys of TLS connections.
#include "net/tls_credentials.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

TEST(TlsCredentials, IdentitiesComeBackAndOthersAreRefused) {
  KeyId id{};
  id[0] = std::byte{0xab};
  const std::string identity = tls_identity(Role::kData, id);
  Role role{};
  KeyId back{};
  ASSERT_TRUE(parse_tls_identity(identity, &role, &back));
  EXPECT_EQ(role, Role::kData);
  EXPECT_EQ(back, id);
  for (const std::string& wrong : {std::string(), std::string("4"), std::string("4:"), "5" + identity.substr(1),
                                   "0" + identity.substr(1), identity + "0", identity.substr(1)})
    EXPECT_FALSE(parse_tls_identity(wrong, &role, &back)) << wrong;
}

TEST(TlsCredentials, TheKeyIsOfThisIdentityAlone) {
  const Key secret{std::byte{1}};
  TlsKey one{};
  TlsKey other{};
  ASSERT_TRUE(tls_key("1:ab", secret, &one).ok() && tls_key("2:ab", secret, &other).ok());
  EXPECT_NE(one, other);
  EXPECT_NE(one, secret);
}

}  // namespace
}  // namespace tutti
