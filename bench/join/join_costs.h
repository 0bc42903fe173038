// Measures how much processor time the parts of a join take, with the code of the library.
#pragma once

#include <chrono>

namespace tutti::bench {

using Microseconds = std::chrono::duration<double, std::micro>;

/// Processor time, and memory.
struct JoinCosts {
  // A process makes a communicator of one rank: this is what it does for itself in any join.
  Microseconds start{};
  // A connection over TCP, until each end knows the other.
  Microseconds dial{};
  Microseconds accept{};
  // A message of a few bytes, and each byte of a long one.
  Microseconds send{};
  Microseconds receive{};
  Microseconds send_byte{};
  Microseconds receive_byte{};
  // The root's part in the join of a rank: until the rank has heard where the table comes from, until it has been let
  // go, and until its connection has ended.
  Microseconds root_join{};
  Microseconds root_let_go{};
  Microseconds root_end{};
  // A process reads the table of all ranks, and orders them, before it connects to others. When it is let go, it finds
  // out from the table where all ranks are.
  Microseconds take_table{};
  Microseconds take_go{};
  /// Each process keeps so many bytes of its heap for each rank of the table. Here no name or id has more than 15
  /// characters; longer ones take more.
  double bytes_of_rank = 0;
};

/// All but what depends on the number of ranks. Takes some seconds. The process must not have used the library yet, and
/// has no other threads.
JoinCosts measure_join_costs();
/// Sets take_table, take_go and bytes_of_rank.
void measure_table(int ranks, int ranks_of_host, JoinCosts* costs);

}  // namespace tutti::bench
