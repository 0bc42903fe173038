#include "collectives/choice/network_choice.h"

#include <algorithm>
#include <bit>

#include "collectives/choice/choice_by_time.h"
#include "collectives/hierarchical/host_rounds.h"

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
/// Ranks that all run on the same cores pay for each message with time that another one needs: more than two take log2
/// n rounds of one message instead.
constexpr int kTcpSameBootRanks = 2;
/// Halving and doubling where n is a power of two, up to here; the ring, which keeps all links busy at once, above.
constexpr std::size_t kTcpHalvingBytes = 1024 * 1024;
/// Two shots: the bytes of a ring in two hops, but all peers send to one at once.
constexpr std::size_t kTcpTwoShotBytes = 128 * 1024;
constexpr std::size_t kTcpPairTwoShotBytes = 1024 * 1024;
constexpr std::size_t kTcpSharedCoresPairBytes = 16 * 1024 * 1024;
/// Hosts that are one system: in each round all ranks have to get a core, whatever their messages carry. With a rank a
/// host, recursive doubling has the fewest rounds: up to so many bytes a rank, and at most so many. Halving and
/// doubling of a power of two, or the exchange with one round that scatters, then give way to the ring earlier.
constexpr std::size_t kTcpSharedCoresDoublingBytesARank = 3 * 1024;
constexpr std::size_t kTcpSharedCoresDoublingBytes = 32 * 1024;
constexpr std::size_t kTcpSharedCoresHalvingBytes = 64 * 1024;
constexpr std::size_t kTcpSharedCoresScatterBytes = 128 * 1024;
/// Hosts with several ranks that are one system: small data is exchanged by leaders. Few hosts do so up to so many
/// bytes for each rank of a host, and further ranks than these do not count.
constexpr int kTcpSharedCoresFewHosts = 4;
constexpr std::size_t kTcpSharedCoresLeaderBytesARank = 8 * 1024;
constexpr int kTcpSharedCoresLeaderRanks = 4;
/// More hosts do so up to so many bytes. Up to so many hosts leaders send to all others at once, so that with two ranks
/// a host recursive doubling has fewer messages.
constexpr std::size_t kTcpSharedCoresLeaderBytes = 4 * 1024;
constexpr int kTcpSharedCoresManyHosts = 8;
/// Larger data is exchanged by drivers, each its share: on two hosts up to the first, on more than few up to the
/// second.
constexpr std::size_t kTcpSharedCoresPairExchangeBytes = 64 * 1024;
constexpr std::size_t kTcpSharedCoresExchangeBytes = 32 * 1024;
/// Still larger data takes the exchange with one round that scatters, up to here, and then rings of drivers.
constexpr std::size_t kTcpSharedCoresHostsScatterBytes = 256 * 1024;
/// Hierarchical all-reduce of two hosts: leaders alone exchange the whole data below, a ring of drivers above. The same
/// between devices (named_peers_algorithm), there also of more hosts. Not where hosts are one system.
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
/// Trees of hosts have few levels to fill. A host of 8 ranks has some 30 messages a tile, so that smaller tiles cost
/// more than they fill. Not measured: as the simulator says it (docs/simulation.md).
constexpr std::size_t kTcpTreeTiles = 32;
constexpr std::size_t kTcpTreeLeastTile = 128 * 1024;
constexpr std::size_t kTcpTreeLargestTile = 512 * 1024;

/// Above so many ranks or hosts a ring's hops, one per rank, count for more than the bytes that it saves: it is for
/// data of at least so many bytes a rank. Not measured: as the simulator says it (docs/simulation.md).
constexpr int kTcpFewRanks = 32;
constexpr std::size_t kTcpRingBytesARank = 4 * 1024;
/// More ranks than kTcpAllPairsRanks that share their cores: blocks up to here travel together in log2 n rounds.
constexpr std::size_t kTcpSharedCoresTogetherBytes = 16 * 1024;

bool one_round(const Machine& machine) {
  return machine.ranks <= (machine.same_boot_id ? kTcpSameBootRanks : kTcpAllPairsRanks);
}

/// Whether closed forms may decide where thresholds were measured on another network: what this one costs is known, and
/// processors are not shared between its hosts.
bool is_measured(const Machine& machine) { return machine.tcp_costs().wire_kib > 0 && !machine.same_boot_id; }

/// Up to so many bytes a ring of so many has too many hops.
std::size_t ring_from(int ranks, std::size_t measured) {
  return ranks <= kTcpFewRanks ? measured : std::max(measured, static_cast<std::size_t>(ranks) * kTcpRingBytesARank);
}

/// All-gather or reduce-scatter of more than kTcpAllPairsRanks ranks. Those that share their cores take what has few
/// messages.
std::string_view blocks_between(Collective collective, std::size_t bytes, const Machine& machine,
                                const HostMap* hosts) {
  if (!machine.same_boot_id) return exchange_of_blocks_by_time(collective, bytes, machine, hosts);
  const bool alone = is_alone(machine, hosts);
  const std::string_view rings = alone ? "ring" : "hierarchical";
  if (!alone || bytes > kTcpSharedCoresTogetherBytes) return rings;
  const std::string_view together = collective == Collective::kAllGather ? "bruck" : "recursive_halving";
  if (holds_messages(machine, hosts, collective, together)) return together;
  return holds_messages(machine, hosts, collective, "pat") ? "pat" : rings;
}

/// Whether closed forms choose among the algorithms with a root. Up to kTcpAllPairsRanks ranks are simulated where the
/// network is known, and go by thresholds where it is not.
bool roots_by_time(const Machine& machine) { return machine.ranks > kTcpAllPairsRanks && !machine.same_boot_id; }

/// Whether recursive doubling serves an all-reduce of ranks that have a host each. They must share their cores.
bool doubles_on_one_system(std::size_t bytes, const Machine& machine) {
  const std::size_t all = static_cast<std::size_t>(machine.ranks) * kTcpSharedCoresDoublingBytesARank;
  return machine.same_boot_id && machine.ranks > kTcpSameBootRanks &&
         bytes <= std::min(all, kTcpSharedCoresDoublingBytes);
}

/// Where one algorithm gives way to the next in an all-reduce of hosts with several ranks that are one system.
struct BytesOnOneSystem {
  std::size_t leaders;   ///< up to here leaders exchange the whole data
  std::size_t exchange;  ///< up to here drivers exchange their shares
};
BytesOnOneSystem bytes_on_one_system(const HostMap& map) {
  if (map.hosts > kTcpSharedCoresFewHosts) return {kTcpSharedCoresLeaderBytes, kTcpSharedCoresExchangeBytes};
  const auto ranks = static_cast<std::size_t>(std::min(map.most, kTcpSharedCoresLeaderRanks));
  const std::size_t leaders = ranks * kTcpSharedCoresLeaderBytesARank;
  return {leaders, map.hosts == 2 ? kTcpSharedCoresPairExchangeBytes : leaders};
}

/// All-reduce of hosts that share their cores, so that each message takes time that another one needs: few rounds, then
/// few bytes in few messages, then the ring, whose parts stay in the caches.
std::string_view all_reduce_on_one_system(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  const bool alone = is_alone(machine, hosts);
  const int n = alone ? machine.ranks : hosts->hosts;
  if (!alone) {
    const BytesOnOneSystem most = bytes_on_one_system(*hosts);
    const bool doubles = hosts->most <= 2 && n > kTcpSharedCoresFewHosts && n <= kTcpSharedCoresManyHosts;
    if (bytes <= most.leaders) return doubles ? "recursive_doubling" : "hierarchical_leaders";
    if (bytes <= most.exchange) return "recursive_exchange";
  }
  const std::size_t scattered = alone ? kTcpSharedCoresScatterBytes : kTcpSharedCoresHostsScatterBytes;
  if (bytes <= ring_from(n, scattered) && holds_chunks(machine, host_rounds::kMostMembers)) return "scatter_exchange_1";
  return alone ? "ring" : "hierarchical";
}

std::string_view all_reduce_of_many(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  return machine.same_boot_id ? all_reduce_on_one_system(bytes, machine, hosts)
                              : all_reduce_by_time(bytes, machine, hosts);
}

std::string_view all_reduce_between(std::size_t bytes, const Machine& machine) {
  const int n = machine.ranks;
  const bool all_at_once = n <= kTcpAllPairsRanks && bytes <= (n == 2 ? kTcpPairBytes : kTcpAllPairsBytes);
  if (machine.deterministic) return all_at_once ? "all_pairs" : "all_pairs_two_shot";
  if (doubles_on_one_system(bytes, machine)) return "recursive_doubling";
  if (n > kTcpAllPairsRanks) return all_reduce_of_many(bytes, machine, nullptr);
  if (all_at_once) return "all_pairs";
  const bool halves = n > 2 && std::has_single_bit(static_cast<unsigned>(n)) && holds_chunks(machine, n);
  const std::size_t halved = machine.same_boot_id ? kTcpSharedCoresHalvingBytes : kTcpHalvingBytes;
  if (halves) return bytes <= halved ? "halving_doubling" : "ring";
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
      if (hosts == 2 && !machine.same_boot_id && !is_measured(machine))
        return bytes <= kTcpLeaderPairBytes ? "hierarchical_leaders" : "hierarchical";
      return all_reduce_of_many(bytes, machine, &map);
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
      return roots_by_time(machine) ? rooted_blocks_by_time(collective, bytes.value, machine, hosts) : "all_pairs";
    case Collective::kAllToAll:
      if (machine.ranks <= kTcpAllPairsRanks) return "all_pairs";
      return all_to_all_by_time(bytes.value, machine, hosts);
    case Collective::kAllToAllV:  // blocks of different sizes cannot travel together
      return machine.ranks <= kTcpAllPairsBlocks ? "all_pairs" : "pairwise";
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

Bytes network_tree_tile(Bytes bytes) {
  return Bytes{std::clamp(bytes.value / kTcpTreeTiles, kTcpTreeLeastTile, kTcpTreeLargestTile)};
}

}  // namespace tutti
