#include "collectives/choice/network_choice.h"

#include <algorithm>
#include <bit>

#include "collectives/choice/choice_by_time.h"
#include "collectives/choice/one_system_choice.h"

namespace tutti {
namespace {

// Where one algorithm gives way to another between hosts that are not one system (for those: one_system_choice.cc), and
// the lanes and tiles of both. Up to 8 ranks they decide; of more ranks, and of all-reduces of more than two hosts,
// closed forms do (network_times.h, rooted_times.h). Those of the flat all-reduce and barrier were measured between
// namespaces of one machine; the others are guessed from the model in docs/design/hierarchy.md (a message costs each
// end 2 to 3 us, a hop 10 us and more, a link of 1 Gbit/s carries 1 KiB in 9 us).

/// Up to so many ranks, or leaders, all may send to all at once, a message to every peer.
constexpr int kTcpAllPairsRanks = 8;
/// Up to so many bytes they do so, because each byte crosses the link n-1 times. Of two ranks more may be sent at once:
/// they have no second message to wait for.
constexpr std::size_t kTcpAllPairsBytes = 4 * 1024;
constexpr std::size_t kTcpPairBytes = 32 * 1024;
/// Halving and doubling where n is a power of two, up to here; the ring, which keeps all links busy at once, above.
constexpr std::size_t kTcpHalvingBytes = 1024 * 1024;
/// Two shots: the bytes of a ring in two hops, but all peers send to one at once.
constexpr std::size_t kTcpTwoShotBytes = 128 * 1024;
constexpr std::size_t kTcpPairTwoShotBytes = 1024 * 1024;
/// Hierarchical all-reduce of two hosts: leaders alone exchange the whole data below, a ring of drivers above. The same
/// between devices (named_peers_algorithm), there also of more hosts.
constexpr std::size_t kTcpLeaderPairBytes = 64 * 1024;
constexpr std::size_t kTcpLeaderBytes = 16 * 1024;
/// Trees below, chains above.
constexpr std::size_t kTcpTreeBytes = 64 * 1024;
/// Two lanes: while one waits, the other keeps the link busy. Where the cores are what is busy, a lane more costs more
/// than it gains: between hosts of one system up to the second, over the loopback at any size.
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

/// Whether closed forms may decide where thresholds were measured on another network: what this one costs is known.
bool is_measured(const Machine& machine) { return machine.tcp_costs().wire_kib > 0; }

/// Whether closed forms choose among the algorithms with a root. Up to kTcpAllPairsRanks ranks are simulated where the
/// network is known, and go by thresholds where it is not.
bool roots_by_time(const Machine& machine) { return machine.ranks > kTcpAllPairsRanks; }

std::string_view all_reduce_between(std::size_t bytes, const Machine& machine) {
  const int n = machine.ranks;
  const bool all_at_once = n <= kTcpAllPairsRanks && bytes <= (n == 2 ? kTcpPairBytes : kTcpAllPairsBytes);
  if (machine.deterministic) return all_at_once ? "all_pairs" : "all_pairs_two_shot";
  if (n > kTcpAllPairsRanks) return all_reduce_by_time(bytes, machine, nullptr);
  if (all_at_once) return "all_pairs";
  const bool halves = n > 2 && std::has_single_bit(static_cast<unsigned>(n)) && holds_chunks(machine, n);
  if (halves) return bytes <= kTcpHalvingBytes ? "halving_doubling" : "ring";
  return bytes <= (n == 2 ? kTcpPairTwoShotBytes : kTcpTwoShotBytes) ? "all_pairs_two_shot" : "ring";
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
      return few ? "ring" : exchange_of_blocks_by_time(collective, bytes, machine, nullptr);
    case Collective::kAllGather:
      if (all_at_once) return "all_pairs";
      return few ? "ring" : exchange_of_blocks_by_time(collective, bytes, machine, nullptr);
    case Collective::kAllGatherV:  // blocks of different sizes cannot travel together
      return all_at_once ? "all_pairs" : "ring";
    case Collective::kBroadcast:
      if (roots_by_time(machine)) return broadcast_by_time(bytes, machine, nullptr);
      return bytes <= ring_from(machine.ranks, kTcpTreeBytes) ? "tree" : "chain";
    case Collective::kBarrier:
      return few ? "all_pairs" : barrier_by_time(machine);
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
      return few ? "hierarchical" : exchange_of_blocks_by_time(collective, bytes, machine, &map);
    case Collective::kAllGather:
      if (all_at_once) return "all_pairs";
      return few ? "hierarchical" : exchange_of_blocks_by_time(collective, bytes, machine, &map);
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
  if (machine.same_boot_id) return one_system_algorithm(collective, bytes, machine, hosts);
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
  if (machine.same_host_id) return 1;
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
