// A cluster as the choice sees it, and what its calls take in the simulator.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/choice.h"
#include "collectives/choice/network_machine.h"
#include "schedule/simulator/simulator.h"
#include "schedule/topologies.h"

namespace tutti {

/// The cluster of docs/study/cluster.costs: links of 100 Gbit/s, 10 us between hosts.
inline Machine cluster(const HostList& hosts) {
  Machine machine = network_machine(hosts);
  machine.costs.tcp = LinkCosts{10'000'000, 1'500'000, 1'400'000, 85'000, 85'000, 81'920, 0};
  machine.costs.cores = 8;
  return machine;
}

/// Makes the machine of cluster(hosts), but its hosts have `cores` each, and a KiB takes their links `wire_kib`.
inline Machine cluster(const HostList& hosts, int cores, Time wire_kib) {
  Machine machine = cluster(hosts);
  machine.costs.cores = cores;
  machine.costs.tcp.wire_kib = wire_kib;
  return machine;
}

/// The time of one call, INT64_MAX if messages cannot hold what the algorithm sends in one.
inline Time simulated(Collective collective, const Machine& machine, const Topology& topology, const std::string& name,
                      Bytes bytes, std::int32_t root = 0) {
  const Choice choice = choose(collective, bytes, machine, name, Bytes{0}, &topology.map());
  if (choice.name_refused) return INT64_MAX;
  SimulatedCall call;
  call.shape = Shape{machine.ranks, 0, root, choice.lanes, &topology.map()};
  call.block = bytes;
  call.tile = choice.tile_bytes;
  call.credits = machine.credits;
  Network network;
  network.costs = machine.costs;
  network.tcp = true;
  Simulator simulator;
  return simulator.simulate(*choice.algorithm, call, network, {}).time;
}

}  // namespace tutti
