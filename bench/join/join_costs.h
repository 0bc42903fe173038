// What the parts of a join cost a processor, measured with the code of the library.
#pragma once

#include <chrono>

namespace tutti::bench {

using Microseconds = std::chrono::duration<double, std::micro>;

/// Processor time, and memory.
struct JoinCosts {
  // What a process does once, before and after it has to do with others: a communicator of one rank.
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
  // What a process does with the table of all ranks before it can connect to others, and when it is let go.
  Microseconds take_table{};
  Microseconds take_go{};
  /// Of the heap, for each rank of the table, in each process, without names and ids of more than 15 characters.
  double bytes_of_rank = 0;
};

/// All but what depends on the number of ranks. Takes some seconds. The process must not have used the library yet, and
/// has no other threads.
JoinCosts measure_join_costs();
/// Sets take_table, take_go and bytes_of_rank.
void measure_table(int ranks, int ranks_of_host, JoinCosts* costs);

}  // namespace tutti::bench
