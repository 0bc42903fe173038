// A join and the end of a communicator, simulated process by process, in the library's order of processes
// (comm/membership/process_order.h) with the library's messages. docs/design/rendezvous.md tells what they do.
//
// Each process has one rank and one service thread, which does one thing after another. The wire adds its latency, and
// a host's link carries one long message after another. What is not simulated: other work on the cores, lost packets,
// and what the ranks of a host do to share memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "join_costs.h"

namespace tutti::bench {

struct JoinNetwork {
  int ranks_of_host = 8;
  int cores_of_host = 8;
  bool one_machine = false;      ///< all hosts are names of one machine: they share the cores of one, and no wire
  Microseconds latency{10};      ///< between hosts, one way
  double bytes_per_us = 12'500;  ///< of a host's link, each way
};

/// Times since the first rank began to dial.
struct JoinReport {
  Microseconds joined{};      ///< the root has all ranks
  Microseconds table_sent{};  ///< the root has sent the table, or the name of the process that has it, to all
  Microseconds table{};       ///< all processes have the table
  Microseconds linked{};      ///< all are connected to their neighbours
  Microseconds ended{};       ///< all joins have returned
  Microseconds root_busy{};   ///< processor time of the root's service thread
  std::int64_t root_bytes = 0;
  std::int64_t messages = 0;  ///< of all processes together, without those of the handshakes
  std::int64_t bytes = 0;     ///< of these messages and of the handshakes
  std::size_t table_bytes = 0;
  std::size_t fewest_connections = 0;  ///< of a process
  std::size_t most_connections = 0;
};

struct LeaveReport {
  Microseconds ended{};  ///< since the last rank came to Finalize
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

JoinReport simulate_join(int ranks, const JoinNetwork& network, const JoinCosts& costs);
LeaveReport simulate_leave(int ranks, const JoinNetwork& network, const JoinCosts& costs);

}  // namespace tutti::bench
