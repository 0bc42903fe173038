#include "collectives/choice/choice_by_time.h"

#include <algorithm>
#include <cstdint>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/network_times.h"
#include "collectives/choice/rooted_times.h"
#include "collectives/hierarchical/host_rounds.h"
#include "schedule/tiling.h"

namespace tutti {
namespace {

/// Above so many ranks or hosts a ring's hops, one per rank, count for more than the bytes that it saves: it is for
/// data of at least so many bytes a rank. Not measured: as the simulator says it (docs/simulation.md).
constexpr int kTcpFewRanks = 32;
constexpr std::size_t kTcpRingBytesARank = 4 * 1024;

/// Keeps the algorithm that takes the least time; of several that take the same, the one that was offered first.
class Fastest {
 public:
  void offer(std::string_view name, Time time) {
    if (!name_.empty() && time >= least_) return;
    name_ = name;
    least_ = time;
  }
  /// Takes it only if it saves more than an eighth of the least time so far.
  void offer_if_worth_it(std::string_view name, Time time) {
    if (name_.empty() || time < least_ - least_ / 8) offer(name, time);
  }
  /// Takes what has all ranks send to all others at once: of few ranks as any other, of more only if it is worth it
  /// beside another one.
  void offer_all_pairs(std::string_view name, int ranks, Time time) {
    if (ranks <= kTcpAllPairsBlocks) return offer(name, time);
    if (ranks <= kTcpAllPairsMost && !name_.empty()) offer_if_worth_it(name, time);
  }
  std::string_view name() const { return name_; }

 private:
  std::string_view name_;
  Time least_ = 0;
};

}  // namespace

bool is_alone(const Machine& machine, const HostMap* hosts) {
  return hosts == nullptr || hosts->hosts == 1 || hosts->hosts == machine.ranks;
}

std::size_t ring_from(int ranks, std::size_t measured) {
  return ranks <= kTcpFewRanks ? measured : std::max(measured, static_cast<std::size_t>(ranks) * kTcpRingBytesARank);
}

bool holds_chunks(const Machine& machine, int chunks) {
  return machine.max_message.value >= static_cast<std::size_t>(chunks) * kPartAlign.value;
}

bool holds_messages(const Machine& machine, const HostMap* hosts, Collective collective, std::string_view name) {
  const Extent extent = find_algorithm(collective, name)->extent(Shape{machine.ranks, 0, 0, 1, hosts});
  return holds_chunks(machine, static_cast<int>(extent.message_chunks));
}

/// Two must save an eighth of the time: a ring of all ranks, which has a hop for each rank, and two shots of all pairs,
/// which have all ranks send to one at once.
std::string_view all_reduce_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  static constexpr std::string_view kByScattered[] = {"recursive_exchange", "scatter_exchange_1", "scatter_exchange_2",
                                                      "scatter_exchange_3"};
  const bool alone = is_alone(machine, hosts);
  const NetworkTimes times(machine, hosts, Bytes{bytes});
  Fastest fastest;
  fastest.offer(alone ? "recursive_doubling" : "hierarchical_leaders", times.leaders());
  const Shape shape{machine.ranks, 0, 0, 1, hosts};
  const std::int32_t rounds = std::min(host_rounds::count(shape), 3);
  for (std::int32_t scattered = 0; scattered <= rounds; ++scattered) {
    if (!holds_chunks(machine, host_rounds::parts(shape, scattered))) break;
    fastest.offer(kByScattered[scattered], times.exchange(scattered));
  }
  fastest.offer(alone ? "ring" : "hierarchical", times.ring());
  if (!alone && hosts->follow_one_another) fastest.offer_if_worth_it("ring", times.ring_of_ranks());
  if (alone && machine.ranks <= kTcpAllPairsMost) fastest.offer_if_worth_it("all_pairs_two_shot", times.two_shots());
  return fastest.name();
}

std::string_view exchange_of_blocks_by_time(Collective collective, std::size_t bytes, const Machine& machine,
                                            const HostMap* hosts) {
  const std::string_view together = collective == Collective::kAllGather ? "bruck" : "recursive_halving";
  const NetworkTimes times(machine, hosts, Bytes{bytes});
  Fastest fastest;
  const bool alone = is_alone(machine, hosts);
  const bool adds = reduces(collective);
  fastest.offer(alone ? "ring" : "hierarchical", times.rings_of_blocks(adds));
  // The first of equal times is taken, and this is the simpler program.
  if (holds_messages(machine, hosts, collective, together)) fastest.offer(together, times.blocks_together(adds));
  const bool rounds = alone ? adds : hosts->follow_one_another;  // with a rank a host the all-gather is Bruck's
  if (rounds && holds_messages(machine, hosts, collective, "hierarchical_rounds"))
    fastest.offer("hierarchical_rounds", times.rows_in_rounds(adds));
  if (holds_messages(machine, hosts, collective, "pat")) fastest.offer("pat", times.blocks_in_groups(adds));
  if (alone) fastest.offer_all_pairs("all_pairs", machine.ranks, times.blocks_apart(collective));
  return fastest.name();
}

/// Where hosts have several ranks, trees of all ranks are left out: they are fast only if the root is the first rank of
/// its host, which nobody knows here.
std::string_view broadcast_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  const RootedTimes times(machine, hosts, Bytes{bytes});
  const bool alone = is_alone(machine, hosts);
  Fastest fastest;
  if (alone) {
    fastest.offer("tree", times.broadcast_tree(2));
    fastest.offer("knomial_4", times.broadcast_tree(4));
    fastest.offer("knomial_8", times.broadcast_tree(8));
    fastest.offer("double_tree", times.broadcast_double_tree());
  } else {
    fastest.offer("hierarchical_tree", times.broadcast_tree_of_hosts());
    fastest.offer("hierarchical_knomial_4", times.broadcast_knomial_of_hosts(4));
    fastest.offer("hierarchical_knomial_8", times.broadcast_knomial_of_hosts(8));
  }
  if (holds_messages(machine, hosts, Collective::kBroadcast, "scatter_all_gather"))
    fastest.offer("scatter_all_gather", times.scatter_all_gather());
  fastest.offer("hierarchical_double_tree", times.broadcast_double_tree_of_hosts());
  fastest.offer(alone ? "chain" : "hierarchical", times.broadcast_chain());
  return fastest.name();
}

std::string_view reduce_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  const RootedTimes times(machine, hosts, Bytes{bytes});
  Fastest fastest;
  if (is_alone(machine, hosts)) {
    fastest.offer("tree", times.reduce_tree(2));
    fastest.offer("knomial_4", times.reduce_tree(4));
    fastest.offer("knomial_8", times.reduce_tree(8));
    fastest.offer("double_tree", times.reduce_double_tree());
  } else {
    fastest.offer("hierarchical_tree", times.reduce_tree_of_hosts());
    fastest.offer("hierarchical_knomial_4", times.reduce_knomial_of_hosts(4));
    fastest.offer("hierarchical_knomial_8", times.reduce_knomial_of_hosts(8));
  }
  fastest.offer("hierarchical_double_tree", times.reduce_double_tree_of_hosts());
  fastest.offer("chain", times.reduce_chain());
  return fastest.name();
}

std::string_view rooted_blocks_by_time(Collective collective, std::size_t bytes, const Machine& machine,
                                       const HostMap* hosts) {
  const RootedTimes times(machine, hosts, Bytes{bytes});
  Fastest fastest;
  fastest.offer("all_pairs", times.blocks_straight(collective));
  const auto offer = [&](std::string_view name, Time time) {
    if (holds_messages(machine, hosts, collective, name)) fastest.offer(name, time);
  };
  if (!is_alone(machine, hosts)) offer("hierarchical_leaders", times.blocks_by_leaders(collective));
  offer("tree", times.blocks_in_tree(collective, 2));
  offer("knomial_4", times.blocks_in_tree(collective, 4));
  return fastest.name();
}

/// Another round must save an eighth of the time, because the ranks of a host wait for one another in each. All pairs
/// have too many messages for many ranks that share their cores.
std::string_view all_to_all_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  static constexpr std::string_view kByRounds[] = {"hierarchical", "hierarchical_2", "hierarchical_3"};
  const NetworkTimes times(machine, hosts, Bytes{bytes});
  const auto holds = [&](std::string_view name) { return holds_messages(machine, hosts, Collective::kAllToAll, name); };
  Fastest fastest;
  for (std::int32_t rounds = 1; rounds <= 3; ++rounds) {
    const std::string_view name = kByRounds[rounds - 1];
    if (holds(name)) fastest.offer_if_worth_it(name, times.blocks_by_hosts(rounds));
  }
  if (holds("bruck")) fastest.offer("bruck", times.blocks_in_rounds());
  if (!machine.same_boot_id)
    fastest.offer_all_pairs("all_pairs", machine.ranks, times.blocks_apart(Collective::kAllToAll));
  return fastest.name().empty() ? "pairwise" : fastest.name();
}

/// A message to each other rank, all at once, may take less time than log2 n hops.
std::string_view barrier_by_time(const Machine& machine) {
  const NetworkTimes times(machine, nullptr, Bytes{0});
  Fastest fastest;
  fastest.offer("dissemination", times.blocks_in_rounds());
  fastest.offer_all_pairs("all_pairs", machine.ranks, times.blocks_apart(Collective::kAllGather));
  return fastest.name();
}

}  // namespace tutti
