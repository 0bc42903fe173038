// What identifies this host to other ranks.
#pragma once

#include <cstdint>
#include <string>

#include "core/settings.h"

namespace tutti {

struct HostIdentity {
  /// TUTTI_HOSTID, or a number made of the boot id and the network namespace, in hexadecimal digits: equal on two ranks
  /// when abstract unix sockets can connect them.
  std::string host;
  /// A number made of the boot id alone, so that it is equal on two ranks that run on the same cores, whatever they
  /// call their hosts. It is 0 if Linux gives no boot id.
  std::uint64_t boot_id = 0;
};

/// Fails if the process lacks descriptors or memory for this.
Status identify_host(const Settings& settings, HostIdentity* identity);

/// The name of this host, for texts.
std::string host_name();

}  // namespace tutti
