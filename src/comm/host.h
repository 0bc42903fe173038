// What identifies this host to other ranks.
#pragma once

#include <cstdint>
#include <string>

#include "core/settings.h"

namespace tutti {

/// TUTTI_HOSTID, or the boot id and the network namespace: equal on two ranks when abstract unix sockets can connect
/// them.
std::string host_id(const Settings& settings);

/// Of the boot id alone: equal on two ranks that run on the same cores, whatever they call their hosts. 0: unknown.
std::uint64_t kernel_id();

/// For texts.
std::string host_name();

}  // namespace tutti
