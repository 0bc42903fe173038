// Addresses of this host that no other host reaches.
#pragma once

#include <cstddef>

#include "net/address.h"

namespace tutti::test {

/// 127.0.0.`last`
inline IpAddress loopback(unsigned last = 1) {
  IpAddress address;
  address.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, static_cast<std::byte>(last)};
  return address;
}

}  // namespace tutti::test
