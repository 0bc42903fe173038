#include "collectives/choice/one_system_choice.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "collectives/choice/choice.h"
#include "collectives/choice/choice_by_time.h"

namespace tutti {
namespace {

// Where one algorithm gives way to another, measured on two cores over the loopback and between namespaces
// (docs/design/choice.md). There is no wire: a message takes time of both ends' cores, which other ranks may need. So
// what counts is how many messages there are, and from some 64 KiB on how often each byte is copied.

/// Up to so many ranks send small data to all at once if each has a core (more than two of those were not measured), or
/// to the root.
constexpr int kLocalFewRanks = 8;
constexpr std::size_t kLocalAllPairsBytes = 4 * 1024;
/// One rank has connections to so many others at most, but for a gather or scatter.
constexpr int kLocalMostServed = 64;
/// A pair has no second message to wait for. Two shots halve what each adds, the ring keeps large parts in the caches.
constexpr std::size_t kLocalPairBytes = 256 * 1024;
constexpr std::size_t kLocalPairTwoShotBytes = 16 * 1024 * 1024;
/// All-reduce of more ranks: recursive doubling has the fewest rounds; then halving and doubling of a power of two, up
/// to the smaller of so many bytes a rank and so many in all, two shots of another number of few ranks, or one round
/// that scatters of more; then the ring. A crowd over the loopback halves and doubles with any number of ranks.
constexpr std::size_t kLocalDoublingBytes = 32 * 1024;
constexpr std::size_t kLocalHalvingBytesARank = 256 * 1024;
constexpr std::size_t kLocalHalvingBytes = 2 * 1024 * 1024;
constexpr std::size_t kLocalHalvingCrowdBytes = 1024 * 1024;
constexpr std::size_t kLocalTwoShotBytes = 128 * 1024;
/// In a crowd a rank that has to wait loses its core to many others. A linear all-reduce has the fewest turns, but one
/// rank does all the work: up to so many bytes of all ranks together.
constexpr std::size_t kLocalLinearBytes = 8 * 1024 * 1024;
/// A broadcast or reduce has the fewest turns if its root serves all, as it does over the loopback up to so many bytes.
constexpr std::size_t kLocalServedBytes = 64 * 1024;
/// Between hosts it pays for a gather, and for a reduce up to so many bytes of all ranks together: up to the first
/// where each rank has a host of its own, up to the second where hosts have several ranks.
constexpr std::size_t kLocalAllPairsReduceBytes = 256 * 1024;
constexpr std::size_t kLocalHostsReduceBytes = 64 * 1024;
/// Blocks of an all-gather or reduce-scatter travel together in log2 n rounds up to here, and around a ring above.
constexpr std::size_t kLocalTogetherBytes = 64 * 1024;
/// Those of an all-to-all travel together up to here; larger ones are all under way at once.
constexpr std::size_t kLocalTogetherToAllBytes = 4 * 1024;
/// From here on those of an all-to-all of hosts, or of a crowd over the loopback, are exchanged pair by pair.
constexpr std::size_t kLocalPairwiseBytes = 128 * 1024;

/// All-reduce of hosts with several ranks: small data is exchanged by leaders. Up to so many hosts do so up to so many
/// bytes by the fourth power of their number (2 MiB on two hosts, 128 KiB on four). Two hosts of two ranks, and more
/// hosts, have limits of their own.
constexpr int kLocalFewHosts = 4;
constexpr std::size_t kLocalLeaderBytesOfFew = 32 * 1024 * 1024;
constexpr std::size_t kLocalLeaderBytesOfTwoPairs = 32 * 1024;
constexpr std::size_t kLocalLeaderBytes = 4 * 1024;
/// Larger data is exchanged by drivers, each its share: of two hosts up to the first, of many up to the second. Still
/// larger data takes the exchange with one round that scatters, of few hosts up to the first, and then rings of
/// drivers.
constexpr std::size_t kLocalPairExchangeBytes = 256 * 1024;
constexpr std::size_t kLocalExchangeBytes = 32 * 1024;
constexpr std::size_t kLocalFewScatterBytes = 512 * 1024;
constexpr std::size_t kLocalScatterBytes = 1024 * 1024;
/// More than two hosts of two ranks, up to so many, have fewer messages in flat algorithms of log2 n rounds than if
/// leaders sent to all others at once: an all-reduce is doubled up to so many bytes by the number of hosts, and halved
/// and doubled until rings begin.
constexpr int kLocalManyHosts = 8;
constexpr std::size_t kLocalPairsDoublingBytes = 96 * 1024;
/// A host's blocks travel together in rounds of hosts up to here, and those of a gather from leader to root up to the
/// second.
constexpr std::size_t kLocalHostRoundsBytes = 32 * 1024;
constexpr std::size_t kLocalLeadersBlockBytes = 16 * 1024;
/// On at most so many hosts of two ranks, a broadcast or reduce of at least so many bytes takes larger tiles than the
/// tree has.
constexpr int kLocalLargeTileHosts = 3;
constexpr std::size_t kLocalLargeTileBytes = 512 * 1024;
/// Where flat algorithms are better, more than few hosts have a tree of all ranks: for a broadcast up to the first, and
/// for a scatter whose blocks have up to the second.
constexpr std::size_t kLocalFlatTreeBytes = 512 * 1024;
constexpr std::size_t kLocalFlatTreeBlockBytes = 16 * 1024;

bool is_small_for_few(std::size_t bytes, const Machine& machine) {
  return machine.ranks <= kLocalFewRanks && machine.ranks_per_core == 1 && bytes <= kLocalAllPairsBytes;
}

/// Whether one rank may serve all others, each of which waits for a turn on its core once. Between namespaces messages
/// take so much longer that it pays for a reduce alone.
bool serves_crowd(const Machine& machine) { return is_crowd(machine) && machine.ranks <= kLocalMostServed; }
bool serves_crowd_on_loopback(const Machine& machine) { return machine.same_host_id && serves_crowd(machine); }

bool is_power_of_two(const Machine& machine) { return std::has_single_bit(static_cast<unsigned>(machine.ranks)); }

/// The first that messages have room for.
std::string_view first_held(const Machine& machine, const HostMap* hosts, Collective collective,
                            std::initializer_list<std::string_view> names, std::string_view last) {
  for (const std::string_view name : names)
    if (holds_messages(machine, hosts, collective, name)) return name;
  return last;
}

std::string_view flat_all_reduce(std::size_t bytes, const Machine& machine) {
  const int n = machine.ranks;
  const bool pair = n == 2 && bytes <= kLocalPairBytes;
  if (pair || is_small_for_few(bytes, machine)) return "all_pairs";
  if (machine.deterministic || (n == 2 && bytes <= kLocalPairTwoShotBytes)) return "all_pairs_two_shot";
  if (serves_crowd_on_loopback(machine) && bytes <= kLocalLinearBytes / static_cast<std::size_t>(n)) return "linear";
  if (bytes <= kLocalDoublingBytes) return "recursive_doubling";
  const bool crowd = n > kLocalFewRanks && serves_crowd_on_loopback(machine);
  const bool halves = crowd || is_power_of_two(machine);
  const std::size_t halved = is_power_of_two(machine)
                                 ? std::min(static_cast<std::size_t>(n) * kLocalHalvingBytesARank, kLocalHalvingBytes)
                                 : kLocalHalvingCrowdBytes;
  if (bytes > ring_from(n, halves ? halved : kLocalTwoShotBytes)) return "ring";
  if (halves) return first_held(machine, nullptr, Collective::kAllReduce, {"halving_doubling"}, "ring");
  if (n <= kLocalFewRanks) return "all_pairs_two_shot";
  return first_held(machine, nullptr, Collective::kAllReduce, {"scatter_exchange_1"}, "ring");
}

/// All-gather or reduce-scatter.
std::string_view flat_exchange(Collective collective, std::size_t bytes, const Machine& machine) {
  if (is_small_for_few(bytes, machine)) return "all_pairs";
  if (bytes > kLocalTogetherBytes) return "ring";
  const std::string_view together = reduces(collective) ? "recursive_halving" : "bruck";
  return first_held(machine, nullptr, collective, {together, "pat"}, "ring");
}

std::string_view flat_broadcast(std::size_t bytes, const Machine& machine) {
  return bytes <= kLocalServedBytes && serves_crowd_on_loopback(machine) ? "all_pairs" : "tree";
}

std::string_view flat_reduce(std::size_t bytes, const Machine& machine) {
  const bool few = machine.ranks <= kLocalFewRanks;
  if (few && bytes <= kLocalAllPairsBytes) return "all_pairs";
  if (machine.same_host_id) return bytes <= kLocalServedBytes && serves_crowd(machine) ? "all_pairs" : "tree";
  const bool served = serves_crowd(machine) || (few && machine.ranks_per_core > 1);
  return served && bytes <= kLocalAllPairsReduceBytes / static_cast<std::size_t>(machine.ranks) ? "all_pairs" : "tree";
}

std::string_view flat_all_to_all(std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  const bool apart = machine.ranks_per_core == 1 && machine.ranks <= kLocalFewRanks;
  const bool together = !apart && bytes <= kLocalTogetherToAllBytes;
  if (together && holds_messages(machine, nullptr, Collective::kAllToAll, "bruck")) return "bruck";
  if (machine.ranks > kTcpAllPairsBlocks) return all_to_all_by_time(bytes, machine, hosts);
  const bool in_turn = machine.ranks > kLocalFewRanks && bytes >= kLocalPairwiseBytes;
  return in_turn && serves_crowd_on_loopback(machine) ? "pairwise" : "all_pairs";
}

std::string_view flat_barrier(const Machine& machine) {
  if (machine.ranks == 2) return "all_pairs";
  const bool linear = machine.same_host_id && machine.ranks_per_core > 1 && machine.ranks <= kLocalMostServed;
  if (linear) return "linear";
  return is_power_of_two(machine) ? "recursive_doubling" : "dissemination";
}

/// Each rank has a host, or all have one and are connected by its loopback.
std::string_view flat_on_one_system(Collective collective, std::size_t bytes, const Machine& machine) {
  switch (collective) {
    case Collective::kAllReduce:
      return flat_all_reduce(bytes, machine);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return flat_exchange(collective, bytes, machine);
    case Collective::kAllGatherV:  // blocks of different sizes cannot travel together
      return machine.ranks <= kTcpAllPairsBlocks ? "all_pairs" : "ring";
    case Collective::kBroadcast:
      return flat_broadcast(bytes, machine);
    case Collective::kReduce:
      return flat_reduce(bytes, machine);
    case Collective::kGather:
    case Collective::kScatter:
      return "all_pairs";
    case Collective::kAllToAll:
      return flat_all_to_all(bytes, machine, nullptr);
    case Collective::kBarrier:
      return flat_barrier(machine);
    default:
      return {};
  }
}

/// Whether flat algorithms of log2 n rounds have fewer messages than leaders who send to all others at once.
bool is_better_flat(const HostMap& map) { return map.most <= 2 && map.hosts > 2 && map.hosts <= kLocalManyHosts; }
/// Whether the root of a broadcast or scatter has no use for leaders either.
bool takes_flat_tree(const HostMap& map) { return is_better_flat(map) && map.hosts > kLocalFewHosts; }

/// Where one algorithm gives way to the next in an all-reduce of hosts with several ranks.
struct HostsAllReduceBytes {
  std::size_t leaders;   ///< up to here leaders exchange the whole data
  std::size_t exchange;  ///< up to here drivers exchange their shares
  std::size_t scatter;   ///< up to here data is scattered in few rounds
};
HostsAllReduceBytes hosts_all_reduce_bytes(const HostMap& map) {
  if (map.hosts > kLocalFewHosts) return {kLocalLeaderBytes, kLocalExchangeBytes, kLocalScatterBytes};
  const auto square = static_cast<std::size_t>(map.hosts) * static_cast<std::size_t>(map.hosts);
  const std::size_t leaders = map.most > 2 ? kLocalLeaderBytesOfFew / (square * square) : kLocalLeaderBytesOfTwoPairs;
  return {leaders, map.hosts == 2 ? kLocalPairExchangeBytes : leaders, kLocalFewScatterBytes};
}

std::string_view hosts_all_reduce(std::size_t bytes, const Machine& machine, const HostMap& map) {
  if (machine.deterministic) return flat_all_reduce(bytes, machine);
  const HostsAllReduceBytes most = hosts_all_reduce_bytes(map);
  const bool flat = is_better_flat(map);
  if (flat && bytes <= kLocalPairsDoublingBytes / static_cast<std::size_t>(map.hosts)) return "recursive_doubling";
  if (!flat && bytes <= most.leaders) return "hierarchical_leaders";
  if (!flat && bytes <= most.exchange) return "recursive_exchange";
  if (bytes > ring_from(map.hosts, most.scatter)) return "hierarchical";
  const std::string_view scatters = flat ? "halving_doubling" : "scatter_exchange_1";
  return first_held(machine, &map, Collective::kAllReduce, {scatters}, "hierarchical");
}

/// All-gather or reduce-scatter.
std::string_view hosts_exchange(Collective collective, std::size_t bytes, const Machine& machine, const HostMap& map) {
  if (bytes > kLocalHostRoundsBytes) return "hierarchical";
  if (!map.follow_one_another) return flat_exchange(collective, bytes, machine);
  return first_held(machine, &map, collective, {"hierarchical_rounds"}, "hierarchical");
}

/// Hosts of equal size exchange blocks host by host, small ones in rounds.
std::string_view hosts_all_to_all(std::size_t bytes, const Machine& machine, const HostMap& map) {
  const std::string_view flat = flat_all_to_all(bytes, machine, &map);
  if (map.fewest != map.most) return flat;
  if (bytes >= kLocalPairwiseBytes && machine.ranks <= kTcpAllPairsBlocks) return "pairwise";
  if (bytes > kLocalTogetherToAllBytes) return first_held(machine, &map, Collective::kAllToAll, {"hierarchical"}, flat);
  const bool few = map.hosts <= kLocalFewHosts;
  return first_held(machine, &map, Collective::kAllToAll,
                    {few ? "hierarchical_2" : "hierarchical_3", "hierarchical_2", "hierarchical"}, flat);
}

bool takes_large_tiles(std::size_t bytes, const HostMap& map) {
  return map.hosts <= kLocalLargeTileHosts && map.most <= 2 && bytes >= kLocalLargeTileBytes;
}

std::string_view hosts_broadcast(std::size_t bytes, const HostMap& map) {
  if (takes_large_tiles(bytes, map)) return "hierarchical_knomial_4";
  return takes_flat_tree(map) && bytes <= kLocalFlatTreeBytes ? "tree" : "hierarchical_tree";
}

std::string_view hosts_reduce(std::size_t bytes, const Machine& machine, const HostMap& map) {
  const bool small = bytes <= kLocalHostsReduceBytes / static_cast<std::size_t>(machine.ranks);
  const bool served = machine.ranks <= kLocalFewRanks || (map.most <= 2 && serves_crowd(machine));
  if (small && served) return "all_pairs";
  return takes_large_tiles(bytes, map) ? "hierarchical_knomial_4" : "hierarchical_tree";
}

std::string_view hosts_gather(std::size_t bytes, const Machine& machine, const HostMap& map) {
  const bool served = machine.ranks <= kLocalFewRanks || serves_crowd(machine);
  if (bytes > kLocalLeadersBlockBytes || served) return "all_pairs";
  return first_held(machine, &map, Collective::kGather, {"hierarchical_leaders"}, "all_pairs");
}

std::string_view hosts_scatter(std::size_t bytes, const Machine& machine, const HostMap& map) {
  const bool tree = takes_flat_tree(map) && bytes <= kLocalFlatTreeBlockBytes;
  return first_held(machine, &map, Collective::kScatter, {tree ? "tree" : "hierarchical_leaders"}, "all_pairs");
}

std::string_view hosts_barrier(const Machine& machine, const HostMap& map) {
  const bool flat = is_better_flat(map) && (map.hosts > kLocalFewHosts || is_power_of_two(machine));
  return flat ? flat_barrier(machine) : "hierarchical";
}

std::string_view hosts_on_one_system(Collective collective, std::size_t bytes, const Machine& machine,
                                     const HostMap& map) {
  switch (collective) {
    case Collective::kAllReduce:
      return hosts_all_reduce(bytes, machine, map);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return hosts_exchange(collective, bytes, machine, map);
    case Collective::kAllGatherV:
      return "hierarchical";
    case Collective::kBroadcast:
      return hosts_broadcast(bytes, map);
    case Collective::kReduce:
      return hosts_reduce(bytes, machine, map);
    case Collective::kGather:
      return hosts_gather(bytes, machine, map);
    case Collective::kScatter:
      return hosts_scatter(bytes, machine, map);
    case Collective::kAllToAll:
      return hosts_all_to_all(bytes, machine, map);
    case Collective::kBarrier:
      return hosts_barrier(machine, map);
    default:
      return {};
  }
}

}  // namespace

std::string_view one_system_algorithm(Collective collective, Bytes bytes, const Machine& machine,
                                      const HostMap* hosts) {
  if (machine.deterministic && reduces(collective) && collective != Collective::kAllReduce) return "all_pairs";
  if (collective == Collective::kAllToAllV) return machine.ranks <= kTcpAllPairsBlocks ? "all_pairs" : "pairwise";
  return is_alone(machine, hosts) ? flat_on_one_system(collective, bytes.value, machine)
                                  : hosts_on_one_system(collective, bytes.value, machine, *hosts);
}

}  // namespace tutti
