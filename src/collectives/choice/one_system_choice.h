// The choice where tcp connects ranks of one system, which share its cores: ranks of one host, over its loopback, or of
// several hosts that are one system, such as containers.
#pragma once

#include <string_view>

#include "core/machine.h"
#include "core/types.h"
#include "schedule/host_map.h"

namespace tutti {

/// The name of the algorithm for blocks of `bytes`. `hosts`: who shares one; nullptr: nobody. A pure function; any
/// thread.
std::string_view one_system_algorithm(Collective collective, Bytes bytes, const Machine& machine, const HostMap* hosts);

}  // namespace tutti
