// What identifies this host to other ranks.
#pragma once

#include <string>

#include "core/settings.h"

namespace tutti {

/// TUTTI_HOSTID, or the boot id and the network namespace: equal on two ranks when abstract unix sockets can connect
/// them.
std::string host_id(const Settings& settings);

/// For texts.
std::string host_name();

}  // namespace tutti
