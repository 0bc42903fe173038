// How long a join of many processes takes on a cluster, and the end of their communicator (join_simulation.h), by what
// the parts cost a processor of this machine, which is measured first (join_costs.h).
//
//   join_model RANKS[,RANKS...] [RANKS_OF_HOST] [CORES_OF_HOST] [one-machine]    8 and 8 unless given
//
// Hosts are 10 us apart and have links of 100 Gbit/s. With "one-machine" they are names of one machine, as those of
// join_bench are, and share its cores.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "join/join_costs.h"
#include "join/join_simulation.h"

namespace {

using tutti::bench::JoinCosts;
using tutti::bench::JoinNetwork;
using tutti::bench::Microseconds;

double seconds(Microseconds time) { return time.count() / 1e6; }

void print(const JoinCosts& costs) {
  std::printf(
      "processor time: a process of its own %.0f us; a connection %.0f us where it is dialled, %.0f us where it is "
      "accepted; a message %.1f and %.1f us, and %.2f and %.2f ns a byte; the root for each rank %.0f us until it has "
      "joined, %.0f us to let it go, %.0f us to end; a process %.1f ms with the table, %.1f ms when it is let go, and "
      "keeps %.1f bytes of each rank\n",
      costs.start.count(), costs.dial.count(), costs.accept.count(), costs.send.count(), costs.receive.count(),
      costs.send_byte.count() * 1e3, costs.receive_byte.count() * 1e3, costs.root_join.count(),
      costs.root_let_go.count(), costs.root_end.count(), costs.take_table.count() / 1e3, costs.take_go.count() / 1e3,
      costs.bytes_of_rank);
}

void simulate(int ranks, const JoinNetwork& network, const JoinCosts& costs) {
  const auto join = tutti::bench::simulate_join(ranks, network, costs);
  const auto leave = tutti::bench::simulate_leave(ranks, network, costs);
  std::printf(
      "%7d ranks: joined %.3f s, table's source sent %.3f s, table %.3f s, linked %.3f s, joins returned %.3f s; "
      "root busy %.3f s, %.1f MB sent by it; table %.2f MB; %zu to %zu connections a process; %.1f messages and %.0f "
      "bytes a process, without tables %.0f; leaving %.4f s, %.1f messages and %.0f bytes a process\n",
      ranks, seconds(join.joined), seconds(join.table_sent), seconds(join.table), seconds(join.linked),
      seconds(join.ended), seconds(join.root_busy), static_cast<double>(join.root_bytes) / 1e6,
      static_cast<double>(join.table_bytes) / 1e6, join.fewest_connections, join.most_connections,
      static_cast<double>(join.messages) / ranks, static_cast<double>(join.bytes) / ranks,
      static_cast<double>(join.bytes) / ranks - static_cast<double>(join.table_bytes) * (ranks - 1) / ranks,
      seconds(leave.ended), static_cast<double>(leave.messages) / ranks, static_cast<double>(leave.bytes) / ranks);
}

}  // namespace

int main(int count, char** arguments) {
  JoinNetwork network;
  std::vector<int> all_ranks;
  std::stringstream list(count > 1 ? arguments[1] : "");
  for (std::string item; std::getline(list, item, ',');) all_ranks.push_back(std::atoi(item.c_str()));
  if (count > 2) network.ranks_of_host = std::atoi(arguments[2]);
  if (count > 3) network.cores_of_host = std::atoi(arguments[3]);
  network.one_machine = count > 4 && arguments[4] == std::string("one-machine");
  if (all_ranks.empty() || network.ranks_of_host < 1 || network.cores_of_host < 1) {
    std::fprintf(stderr, "usage: %s RANKS[,RANKS...] [RANKS_OF_HOST] [CORES_OF_HOST] [one-machine]\n", arguments[0]);
    return 2;
  }
  JoinCosts costs = tutti::bench::measure_join_costs();
  for (const int ranks : all_ranks) {
    tutti::bench::measure_table(ranks, network.ranks_of_host, &costs);
    print(costs);
    simulate(ranks, network, costs);
  }
  return 0;
}
