// The network by which other hosts reach this one.
#pragma once

#include <cstdint>
#include <string>

#include "core/costs_file.h"
#include "core/settings.h"
#include "net/address.h"

namespace tutti {

/// The interface, and the address with nothing but its network's bits, and how many those are, as a part of a file's
/// name: "eth0-10.1.0.0-16", "eth0-fd00-1---64". Where all bits are the host's own (clouds do that), the interface
/// alone.
std::string network_name(const LocalInterface& interface);

/// In Mbit/s, as Linux tells it of an interface in this folder (/sys/class/net/eth0). 0: it does not know, or this is
/// neither a card nor a bond; what a virtual interface says means nothing.
std::int64_t card_rate(const std::string& folder);

/// The network of the first of local_interfaces() that the settings choose. It has no name if that is the loopback or
/// there is none.
LocalNetwork local_network(const Settings& settings);

}  // namespace tutti
