// The machine of ranks on several hosts, as a join would describe it.
#pragma once

#include "core/machine.h"
#include "schedule/topologies.h"

namespace tutti {

inline Machine network_machine(const HostList& hosts) {
  Machine machine;
  machine.ranks = static_cast<int>(hosts.size());
  machine.lanes = 2;
  machine.network = true;
  machine.hosts = hosts;
  return machine;
}

}  // namespace tutti
