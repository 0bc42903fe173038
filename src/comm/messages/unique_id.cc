#include "comm/messages/unique_id.h"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr char kIdMagic[8] = {'t', 'u', 't', 't', 'i', 'i', 'd', 1};  // the last one is the version
constexpr std::size_t kSecretAt = 8;
constexpr std::size_t kIdNonceAt = 40;
constexpr std::size_t kPortAt = 56;
constexpr std::size_t kCountAt = 58;
constexpr std::size_t kAddressesAt = 60;
constexpr std::size_t kIdAddressSize = 17;
static_assert(kAddressesAt + UniqueId::kMaxAddresses * kIdAddressSize == std::tuple_size_v<IdBytes>);

}  // namespace

IdBytes UniqueId::encode() const {
  IdBytes bytes{};
  std::memcpy(bytes.data(), kIdMagic, sizeof(kIdMagic));
  std::copy(secret.begin(), secret.end(), bytes.begin() + kSecretAt);
  std::copy(nonce.begin(), nonce.end(), bytes.begin() + kIdNonceAt);
  bytes[kPortAt] = static_cast<std::byte>(port & 0xff);
  bytes[kPortAt + 1] = static_cast<std::byte>(port >> 8);
  const std::size_t count = std::min(addresses.size(), kMaxAddresses);
  bytes[kCountAt] = static_cast<std::byte>(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = bytes.data() + kAddressesAt + i * kIdAddressSize;
    at[0] = static_cast<std::byte>(addresses[i].family);
    std::copy(addresses[i].bytes.begin(), addresses[i].bytes.end(), at + 1);
  }
  return bytes;
}

Status UniqueId::decode(const IdBytes& bytes, UniqueId* id) {
  const auto wrong = [] { return fail(Code::kInvalidArgument, "the unique id was not made by tuttiGetUniqueId"); };
  if (std::memcmp(bytes.data(), kIdMagic, sizeof(kIdMagic)) != 0) return wrong();
  const auto count = std::to_integer<std::size_t>(bytes[kCountAt]);
  if (count > kMaxAddresses || bytes[kCountAt + 1] != std::byte{0}) return wrong();
  std::copy_n(bytes.begin() + kSecretAt, id->secret.size(), id->secret.begin());
  std::copy_n(bytes.begin() + kIdNonceAt, id->nonce.size(), id->nonce.begin());
  id->port = static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[kPortAt]) |
                                        std::to_integer<unsigned>(bytes[kPortAt + 1]) << 8);
  id->addresses.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const at = bytes.data() + kAddressesAt + i * kIdAddressSize;
    IpAddress address;
    address.family = std::to_integer<std::uint8_t>(at[0]);
    if (address.family != 4 && address.family != 6) return wrong();
    std::copy_n(at + 1, address.bytes.size(), address.bytes.begin());
    id->addresses.push_back(address);
  }
  return {};
}

Status UniqueId::socket_name(std::string* name) const {
  Key mac;
  TUTTI_TRY(hmac_sha256(secret, {bytes_of("tutti socket"), nonce}, &mac));
  *name = "tutti-" + to_hex(ByteView(mac).first(16));
  return {};
}

Status UniqueId::comm_id(std::uint64_t* value) const {
  Key mac;
  TUTTI_TRY(hmac_sha256(secret, {bytes_of("tutti communicator"), nonce}, &mac));
  std::memcpy(value, mac.data(), sizeof(*value));
  if (*value == 0) *value = 1;
  return {};
}

}  // namespace tutti
