// What the choice of an algorithm may know of the machine: only what all ranks agreed on at join.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/costs.h"
#include "core/units.h"

namespace tutti {

/// The largest message of links. In shared memory it fills a slot. Where all ranks are connected by tcp it is twice as
/// large, because a system call that moves more costs less for each byte (docs/design/tcp.md).
constexpr Bytes largest_message(Bytes slot, bool all_by_tcp) { return all_by_tcp ? Bytes{2 * slot.value} : slot; }

/// Whether no two ranks share a host. `hosts` are as in Machine.
inline bool have_a_host_each(const std::vector<int>& hosts) {
  return !hosts.empty() && static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1 == hosts.size();
}

/// A plain value, equal on all ranks of a communicator.
struct Machine {
  int ranks = 1;
  int lanes = 1;                  ///< lanes that the transport's links were made with
  Bytes max_message{256 * 1024};  ///< the largest message of every link; at least kPartAlign
  std::uint32_t credits = 2;      ///< messages of that size a link holds
  bool deterministic = false;     ///< only algorithms that reduce all operands in one pass
  bool same_host_id = false;      ///< all ranks are on one host: what tcp there is between them is its loopback
  bool on_device = false;         ///< links and buffers are device memory
  bool network = false;           ///< some pairs of ranks are connected by tcp
  Costs costs;                    ///< what messages and work take; the same numbers on all ranks, whoever measured them
  int ranks_per_core = 1;         ///< rounded up; 1 if not all run on one machine or a list of cores is unknown
  bool same_boot_id = false;      ///< all ranks run on the same cores, though some may be called other hosts
  std::vector<int>
      hosts;  ///< by rank: equal numbers share memory, counted from 0 in order of first rank; empty: one host

  bool operator==(const Machine&) const = default;

  /// What tcp costs between these ranks: over the loopback of one host, which has no wire, or between hosts.
  constexpr LinkCosts tcp_costs() const {
    LinkCosts tcp = costs.tcp;
    if (same_host_id) {
      tcp.wire_kib = 0;
    } else if (costs.network_wire_kib > 0) {
      tcp.wire_kib = costs.network_wire_kib;
      tcp.latency = costs.network_latency;
    }
    return tcp;
  }
};

}  // namespace tutti
