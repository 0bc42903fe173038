#include "collectives/choice/network_choice.h"

#include <algorithm>
#include <bit>

#include "collectives/catalogue.h"
#include "collectives/choice/network_times.h"
#include "collectives/choice/rooted_times.h"
#include "collectives/host_rounds.h"
#include "schedule/tiling.h"

namespace tutti {
namespace {

// Where one algorithm gives way to another across hosts. Those of the flat all-reduce and barrier, and of hosts that
// share cores, are measured between namespaces of one machine (docs/performance.md, "Between hosts"), with and without
// a limit of 1 Gbit/s; an all-reduce of many hosts is chosen by closed forms (network_times.h); the others are guessed
// from the model in docs/design/hierarchy.md (a message costs each end 2 to 3 us, a hop 10 us and more, a
// link of 1 Gbit/s carries 1 KiB in 9 us).

/// Up to so many ranks, or leaders, all may send to all at once, a message to every peer.
constexpr int kTcpAllPairsRanks = 8;
/// Up to so many bytes they do so, because each byte crosses the link n-1 times. Of two ranks more may be sent at once:
/// they have no second message to wait for.
constexpr std::size_t kTcpAllPairsBytes = 4 * 1024;
constexpr std::size_t kTcpPairBytes = 32 * 1024;
/// An all-to-all has a block for each rank anyway: up to so many ranks may have all of them under way.
constexpr int kTcpAllPairsBlocks = 64;
/// Ranks that all run on the same cores pay for each message with time that another one needs: more than two take log2
/// n rounds of one message instead.
constexpr int kTcpSameBootRanks = 2;
/// Halving and doubling where n is a power of two, up to here; the ring, which keeps all links busy at once, above.
constexpr std::size_t kTcpHalvingBytes = 1024 * 1024;
/// Two shots: the bytes of a ring in two hops, but all peers send to one at once.
constexpr std::size_t kTcpTwoShotBytes = 128 * 1024;
constexpr std::size_t kTcpPairTwoShotBytes = 1024 * 1024;
constexpr std::size_t kTcpSharedCoresPairBytes = 16 * 1024 * 1024;
/// Many hosts that are one system: leaders below the first, the exchange with one round that scatters below the second.
constexpr std::size_t kTcpSharedCoresLeaderBytes = 8 * 1024;
constexpr std::size_t kTcpSharedCoresScatterBytes = 128 * 1024;
/// Hierarchical all-reduce of two hosts: leaders alone exchange the whole data below, a ring of drivers above. The same
/// between devices (named_peers_algorithm), there also of more hosts.
constexpr std::size_t kTcpLeaderPairBytes = 64 * 1024;
constexpr std::size_t kTcpLeaderBytes = 16 * 1024;
/// Trees below, chains above.
constexpr std::size_t kTcpTreeBytes = 64 * 1024;
/// Two lanes: while one waits, the other keeps the link busy. Where the cores are what is busy, a lane more costs more
/// than it gains up to the second.
constexpr std::size_t kTcpTwoLaneBytes = 64 * 1024;
constexpr std::size_t kTcpSharedCoresTwoLaneBytes = 2 * 1024 * 1024;
/// A chain is full after as many tiles as it has hosts: so many times more tiles than that, none smaller than this.
constexpr std::size_t kTcpChainTiles = 16;
constexpr std::size_t kTcpChainTileBytes = 32 * 1024;

/// Above so many ranks or hosts a ring's hops, one per rank, count for more than the bytes that it saves: it is for
/// data of at least so many bytes a rank. Not measured: as the simulator says it (docs/simulation.md).
constexpr int kTcpFewRanks = 32;
constexpr std::size_t kTcpRingBytesARank = 4 * 1024;
/// More ranks than kTcpAllPairsRanks that share their cores: blocks up to here travel together in log2 n rounds.
constexpr std::size_t kTcpSharedCoresTogetherBytes = 16 * 1024;

/// Whether a message has room for so many chunks: where slots are set to be tiny it has not.
bool holds_chunks(const Machine& machine, int chunks) {
  return machine.max_message.value >= static_cast<std::size_t>(chunks) * kPartAlign.value;
}
/// Whether it has for what an algorithm sends in one.
bool holds_messages(const Machine& machine, const HostMap* hosts, Collective collective, std::string_view name) {
  const Extent extent = find_algorithm(collective, name)->extent(Shape{machine.ranks, 0, 0, 1, hosts});
  return holds_chunks(machine, static_cast<int>(extent.message_chunks));
}

bool one_round(const Machine& machine) {
  return machine.ranks <= (machine.same_boot_id ? kTcpSameBootRanks : kTcpAllPairsRanks);
}

/// Whether no ranks share a host, as far as is known.
bool is_alone(const Machine& machine, const HostMap* hosts) {
  return hosts == nullptr || hosts->hosts == 1 || hosts->hosts == machine.ranks;
}

/// Whether closed forms may decide where thresholds were measured on another network: what this one costs is known, and
/// processors are not shared between its hosts.
bool is_measured(const Machine& machine) { return machine.tcp_costs().wire_kib > 0 && !machine.same_boot_id; }

/// Up to so many bytes a ring of so many has too many hops.
std::size_t ring_from(int ranks, std::size_t measured) {
  return ranks <= kTcpFewRanks ? measured : std::max(measured, static_cast<std::size_t>(ranks) * kTcpRingBytesARank);
}

/// What takes the least time; of those that take the same, the first.
class Fastest {
 public:
  void offer(std::string_view name, Time time) {
    if (!name_.empty() && time >= least_) return;
    name_ = name;
    least_ = time;
  }
  std::string_view name() const { return name_; }

 private:
  std::string_view name_;
  Time least_ = 0;
};

/// All-gather or reduce-scatter of more than kTcpAllPairsRanks ranks. Blocks may travel together, up to half of them in
/// a message. What the closed forms say takes the least time, or, of ranks that share their cores, what has few
/// messages.
std::string_view blocks_between(Collective collective, std::size_t bytes, const Machine& machine,
                                const HostMap* hosts) {
  const std::string_view together = collective == Collective::kAllGather ? "bruck" : "recursive_halving";
  const bool alone = is_alone(machine, hosts);
  const std::string_view rings = alone ? "ring" : "hierarchical";
  const bool holds_half = holds_messages(machine, hosts, collective, together);
  const bool holds_group = holds_messages(machine, hosts, collective, "pat");
  if (machine.same_boot_id) {
    if (!alone || bytes > kTcpSharedCoresTogetherBytes) return rings;
    return holds_half ? together : holds_group ? "pat" : rings;
  }
  const NetworkTimes times(machine, hosts, Bytes{bytes});
  Fastest fastest;
  fastest.offer(rings, times.rings_of_blocks());
  if (holds_half) fastest.offer(together, times.blocks_together());
  if (holds_group) fastest.offer("pat", times.blocks_in_groups());
  return fastest.name();
}

/// Whether closed forms choose among the algorithms with a root. Up to kTcpAllPairsRanks ranks are simulated where the
/// network is known, and go by thresholds where it is not.
bool roots_by_time(const Machine& machine) { return machine.ranks > kTcpAllPairsRanks && !machine.same_boot_id; }

std::string_view broadcast_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  const RootedTimes times(machine, hosts, Bytes{bytes});
  const bool alone = is_alone(machine, hosts);
  Fastest fastest;
  fastest.offer("tree", times.broadcast_tree(2));
  if (!alone) fastest.offer("hierarchical_tree", times.broadcast_tree_of_hosts());
  fastest.offer("knomial_4", times.broadcast_tree(4));
  fastest.offer("knomial_8", times.broadcast_tree(8));
  if (alone) fastest.offer("double_tree", times.broadcast_double_tree());
  if (holds_messages(machine, hosts, Collective::kBroadcast, "scatter_all_gather"))
    fastest.offer("scatter_all_gather", times.scatter_all_gather());
  fastest.offer(alone ? "chain" : "hierarchical", times.broadcast_chain());
  return fastest.name();
}

std::string_view reduce_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  const RootedTimes times(machine, hosts, Bytes{bytes});
  const bool alone = is_alone(machine, hosts);
  Fastest fastest;
  fastest.offer("tree", times.reduce_tree(2));
  if (!alone) fastest.offer("hierarchical_tree", times.reduce_tree_of_hosts());
  fastest.offer("knomial_4", times.reduce_tree(4));
  fastest.offer("knomial_8", times.reduce_tree(8));
  if (alone) fastest.offer("double_tree", times.reduce_double_tree());
  fastest.offer("chain", times.reduce_chain());
  return fastest.name();
}

/// Gather or scatter.
std::string_view blocks_by_time(Collective collective, std::size_t bytes, const Machine& machine,
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

/// All-to-all of more than kTcpAllPairsRanks ranks: what the closed forms say takes the least time. Another round
/// must be worth an eighth of it: the ranks of a host wait for one another in each. All pairs have too many messages
/// for ranks that share their cores.
std::string_view all_to_all_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  static constexpr std::string_view kByRounds[] = {"hierarchical", "hierarchical_2", "hierarchical_3"};
  const NetworkTimes times(machine, hosts, Bytes{bytes});
  std::string_view best = "pairwise";
  Time least = INT64_MAX;
  const auto offer = [&](std::string_view name, Time time, Time worth) {
    if (time >= least - worth || !holds_messages(machine, hosts, Collective::kAllToAll, name)) return;
    best = name;
    least = time;
  };
  for (std::int32_t rounds = 1; rounds <= 3; ++rounds)
    offer(kByRounds[rounds - 1], times.blocks_by_hosts(rounds), least / 8);
  if (machine.ranks <= kTcpAllPairsBlocks && !machine.same_boot_id) offer("all_pairs", times.blocks_apart(), 0);
  offer("bruck", times.blocks_in_rounds(), 0);
  return best;
}

/// All-reduce of many hosts that share their cores, so that each message takes time that another one needs: leaders,
/// then few bytes in few messages, then the ring, whose parts stay in the caches.
std::string_view all_reduce_on_one_system(std::size_t bytes, const Machine& machine, int hosts, bool alone) {
  if (bytes <= kTcpSharedCoresLeaderBytes) return alone ? "recursive_doubling" : "hierarchical_leaders";
  const bool scatters = bytes <= ring_from(hosts, kTcpSharedCoresScatterBytes);
  if (scatters && holds_chunks(machine, host_rounds::kMostMembers)) return "scatter_exchange_1";
  return alone ? "ring" : "hierarchical";
}

/// All-reduce of many hosts: what the closed forms say takes the least time, the simpler one where it is the same.
std::string_view all_reduce_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  static constexpr std::string_view kByScattered[] = {"recursive_exchange", "scatter_exchange_1", "scatter_exchange_2",
                                                      "scatter_exchange_3"};
  const bool alone = is_alone(machine, hosts);
  if (machine.same_boot_id)
    return all_reduce_on_one_system(bytes, machine, alone ? machine.ranks : hosts->hosts, alone);
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
  return fastest.name();
}

std::string_view all_reduce_between(std::size_t bytes, const Machine& machine) {
  const int n = machine.ranks;
  const bool all_at_once = n <= kTcpAllPairsRanks && bytes <= (n == 2 ? kTcpPairBytes : kTcpAllPairsBytes);
  if (machine.deterministic) return all_at_once ? "all_pairs" : "all_pairs_two_shot";
  if (n > kTcpAllPairsRanks) return all_reduce_by_time(bytes, machine, nullptr);
  if (all_at_once) return one_round(machine) ? "all_pairs" : "recursive_doubling";
  const bool halves = n > 2 && std::has_single_bit(static_cast<unsigned>(n)) && holds_chunks(machine, n);
  if (halves) return bytes <= kTcpHalvingBytes ? "halving_doubling" : "ring";
  const std::size_t of_pair = machine.same_boot_id ? kTcpSharedCoresPairBytes : kTcpPairTwoShotBytes;
  return bytes <= (n == 2 ? of_pair : kTcpTwoShotBytes) ? "all_pairs_two_shot" : "ring";
}

/// One rank a host.
std::string_view flat(Collective collective, std::size_t bytes, const Machine& machine) {
  const bool few = machine.ranks <= kTcpAllPairsRanks;
  const bool all_at_once = few && bytes <= kTcpAllPairsBytes;
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce_between(bytes, machine);
    case Collective::kReduceScatter:
      if (all_at_once || machine.deterministic) return "all_pairs";
      return few ? "ring" : blocks_between(collective, bytes, machine, nullptr);
    case Collective::kAllGather:
      if (all_at_once) return "all_pairs";
      return few ? "ring" : blocks_between(collective, bytes, machine, nullptr);
    case Collective::kAllGatherV:  // blocks of different sizes cannot travel together
      return all_at_once ? "all_pairs" : "ring";
    case Collective::kBroadcast:
      if (roots_by_time(machine)) return broadcast_by_time(bytes, machine, nullptr);
      return bytes <= ring_from(machine.ranks, kTcpTreeBytes) ? "tree" : "chain";
    case Collective::kBarrier:
      return one_round(machine) ? "all_pairs" : "dissemination";
    default:
      return {};
  }
}

std::string_view hierarchical(Collective collective, std::size_t bytes, const Machine& machine, const HostMap& map) {
  const int hosts = map.hosts;
  const bool few = machine.ranks <= kTcpAllPairsRanks;
  const bool all_at_once = few && bytes <= kTcpAllPairsBytes;
  switch (collective) {
    case Collective::kAllReduce:
      if (machine.deterministic) return all_reduce_between(bytes, machine);
      if (hosts == 2 && !is_measured(machine))
        return bytes <= kTcpLeaderPairBytes ? "hierarchical_leaders" : "hierarchical";
      return all_reduce_by_time(bytes, machine, &map);
    case Collective::kReduceScatter:
      if (all_at_once || machine.deterministic) return "all_pairs";
      return few ? "hierarchical" : blocks_between(collective, bytes, machine, &map);
    case Collective::kAllGather:
      if (all_at_once) return "all_pairs";
      return few ? "hierarchical" : blocks_between(collective, bytes, machine, &map);
    case Collective::kAllGatherV:
      return all_at_once ? "all_pairs" : "hierarchical";
    case Collective::kBroadcast:
      if (roots_by_time(machine)) return broadcast_by_time(bytes, machine, &map);
      return bytes <= ring_from(hosts, kTcpTreeBytes) ? "hierarchical_tree" : "hierarchical";
    case Collective::kBarrier:
      return "hierarchical";
    default:
      return {};
  }
}

}  // namespace

std::string_view network_algorithm(Collective collective, Bytes bytes, const Machine& machine, const HostMap* hosts) {
  switch (collective) {
    case Collective::kReduce:
      if (machine.deterministic || (machine.ranks <= kTcpAllPairsRanks && bytes.value <= kTcpAllPairsBytes)) {
        return "all_pairs";
      }
      if (roots_by_time(machine)) return reduce_by_time(bytes.value, machine, hosts);
      return bytes.value <= ring_from(machine.ranks, kTcpTreeBytes) ? "tree" : "chain";
    case Collective::kGather:
    case Collective::kScatter:
      return roots_by_time(machine) ? blocks_by_time(collective, bytes.value, machine, hosts) : "all_pairs";
    case Collective::kAllToAll:
      if (machine.ranks <= kTcpAllPairsRanks) return "all_pairs";
      return all_to_all_by_time(bytes.value, machine, hosts);
    case Collective::kAllToAllV:  // blocks of different sizes cannot travel together
      return machine.ranks <= kTcpAllPairsRanks ? "all_pairs" : "pairwise";
    default:
      break;
  }
  return is_alone(machine, hosts) ? flat(collective, bytes.value, machine)
                                  : hierarchical(collective, bytes.value, machine, *hosts);
}

std::string_view named_peers_algorithm(Collective collective, Bytes bytes, int hosts) {
  switch (collective) {
    case Collective::kAllReduce:
      return bytes.value <= (hosts == 2 ? kTcpLeaderPairBytes : ring_from(hosts, kTcpLeaderBytes))
                 ? "recursive_doubling"
                 : "ring";
    case Collective::kBroadcast:
    case Collective::kReduce:
      return bytes.value <= ring_from(hosts, kTcpTreeBytes) ? "tree" : "chain";
    default:
      return "ring";
  }
}

int network_lanes(Bytes bytes, const Machine& machine) {
  const std::size_t from = machine.same_boot_id ? kTcpSharedCoresTwoLaneBytes : kTcpTwoLaneBytes;
  return bytes.value >= from ? std::clamp(machine.lanes, 1, 2) : 1;
}

Bytes network_chain_tile(Bytes bytes, int hosts) {
  return Bytes{std::max(bytes.value / (kTcpChainTiles * static_cast<std::size_t>(hosts)), kTcpChainTileBytes)};
}

}  // namespace tutti
