// The automatic choice where ranks span hosts.
#pragma once

#include <string_view>

#include "core/machine.h"
#include "core/types.h"
#include "schedule/host_map.h"

namespace tutti {

/// The name of the algorithm for blocks of `bytes`. `hosts`: who shares one; nullptr: nobody. A pure function; any
/// thread.
std::string_view network_algorithm(Collective collective, Bytes bytes, const Machine& machine, const HostMap* hosts);

/// The name of the algorithm for `hosts` ranks with a host each, among algorithms whose steps name each peer.
std::string_view named_peers_algorithm(Collective collective, Bytes bytes, int hosts);

/// Lanes that an algorithm which gains by a second one should run on there, at least 1.
int network_lanes(Bytes bytes, const Machine& machine);

/// The tile of an algorithm whose tiles go down a chain of hosts one after the other; `hosts` of them.
Bytes network_chain_tile(Bytes bytes, int hosts);
/// And down trees of hosts, or up.
Bytes network_tree_tile(Bytes bytes);

}  // namespace tutti
