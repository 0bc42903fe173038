#include "collectives/choice/choice.h"

#include <algorithm>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/network_choice.h"
#include "schedule/tiling.h"

namespace tutti {
namespace {

// Where one algorithm gives way to another, measured on shared memory (docs/design/choice.md).

/// All-reduce of more than 2 ranks: one shot reads (n-1) times the data, two shots 2(n-1)/n times at twice the depth.
/// Two ranks read the same either way, and one shot has half the hand-overs.
constexpr std::size_t kOneShotBytes = 8 * 1024;
/// On devices it is this divided by the square of the number of ranks: 8 MiB of 2, 2 MiB of 4, 512 KiB of 8. So an H200
/// that the ranks share has it, where what all of them read grows so. Over NVLink it has not been measured.
constexpr std::size_t kDeviceOneShotBytes = std::size_t{32} << 20;
/// Above this many ranks all-pairs has too many messages and links.
constexpr int kAllPairsRanks = 64;
constexpr int kAllPairsBarrierRanks = 16;
/// So many ranks on each core are a crowd.
constexpr int kCrowd = 4;
/// In a linear all-reduce one core does all the work. That is no slower than dividing it among all cores up to so many
/// bytes by the number of cores, and of two cores at any size.
constexpr std::size_t kLinearBytes = 1024 * 1024;
constexpr std::size_t kLinearCores = 2;
/// So does the root's core in a reduce of all at once. Up to here that is faster than a chain, with a turn for each
/// rank.
constexpr std::size_t kCrowdedReduceBytes = 1024 * 1024;
/// Reduce-scatter of a crowd, by the bytes of a block: from here on a ring, if there are more ranks than this.
constexpr std::size_t kCrowdedRingBytes = 128 * 1024;
constexpr int kCrowdedRingRanks = 16;
/// Reduce-scatter of a crowd of many ranks, by the bytes of a block. The smallest fit into the headers of messages.
/// Larger ones, if all ranks exchanged them with all, would take memory of n * n links: recursive halving has few
/// rounds, and a ring moves the fewest bytes.
constexpr std::size_t kCrowdedScatterSmall = 48;
constexpr std::size_t kCrowdedScatterBytes = 16 * 1024;
/// Many ranks: below, the log-step algorithms; above, the pipelined ones.
constexpr std::size_t kManyRanksSmall = 64 * 1024;
/// A ring in both directions has twice the messages of half the size.
constexpr std::size_t kTwoLaneBytes = 256 * 1024;
/// A chain moves tiles in step: enough of them to fill it, none smaller than this.
constexpr std::size_t kChainTileBytes = 16 * 1024;
/// An exchange has two messages of each link under way. What these may hold together and still leave room in a cache
/// that two cores share; and messages that are not made smaller for it.
constexpr std::size_t kSlotsInCache = std::size_t{8} << 20;
constexpr std::size_t kLeastMessage = 64 * 1024;

std::string_view all_reduce_name(std::size_t bytes, const Machine& machine) {
  const auto cores = div_up(static_cast<std::size_t>(machine.ranks), static_cast<std::size_t>(machine.ranks_per_core));
  if (is_crowd(machine) && (cores <= kLinearCores || bytes <= kLinearBytes / cores)) return "linear";
  if (machine.ranks > kAllPairsRanks && !machine.deterministic) {
    return bytes <= kManyRanksSmall ? "recursive_doubling" : "ring";
  }
  const auto ranks = static_cast<std::size_t>(machine.ranks);
  const std::size_t one_shot = machine.on_device ? kDeviceOneShotBytes / (ranks * ranks) : kOneShotBytes;
  if (bytes <= one_shot || (ranks <= 2 && !machine.on_device)) return "all_pairs";
  return "all_pairs_two_shot";
}

std::string_view reduce_scatter_name(std::size_t block, const Machine& machine, bool many) {
  if (!is_crowd(machine)) return many ? "ring" : "all_pairs";
  if (many) {
    if (block <= kCrowdedScatterSmall) return "all_pairs";
    return block <= kCrowdedScatterBytes ? "recursive_halving" : "ring";
  }
  const bool large = block >= kCrowdedRingBytes && machine.ranks > kCrowdedRingRanks && !machine.deterministic;
  return large ? "ring" : "all_pairs";
}

/// Whether ranks span hosts.
bool is_wide(const Machine& machine, const HostMap* hosts) {
  return machine.network || (hosts != nullptr && hosts->hosts > 1);
}

/// A message of a hierarchical all-to-all has a block of each driver of a host.
std::size_t blocks_of_message(const Algorithm& algorithm, const Machine& machine, const HostMap* hosts) {
  if (hosts == nullptr || hosts->hosts == 1) return 1;
  if (algorithm.collective == Collective::kAllToAll) return static_cast<std::size_t>(hosts->fewest);
  const bool is_exchange =
      algorithm.collective == Collective::kAllGather || algorithm.collective == Collective::kReduceScatter;
  return is_exchange ? algorithm.extent(Shape{machine.ranks, 0, 0, 1, hosts}).message_chunks : 1;
}

int lanes_for(const Algorithm& algorithm, std::size_t bytes, const Machine& machine, const HostMap* hosts) {
  if (algorithm.second_lane == SecondLane::kNever) return 1;
  const int most = std::min(2, algorithm.max_lanes);
  const bool wide = is_wide(machine, hosts);
  const std::size_t blocks = blocks_of_message(algorithm, machine, hosts);
  // Where a host has one driver, nothing happens within it while the other lane waits for the network.
  const bool one_driver = hosts == nullptr || hosts->hosts == 1 || hosts->fewest == 1;
  if (one_driver && (blocks > 1 || algorithm.collective == Collective::kAllToAll)) return 1;
  bytes *= blocks;
  if (wide) return std::min(network_lanes(Bytes{bytes}, machine), most);
  if (algorithm.second_lane == SecondLane::kBetweenHosts || bytes < kTwoLaneBytes) return 1;
  return std::clamp(machine.lanes, 1, most);
}

/// Every rank has a link to each other. Further slots than its first two are used only if these are not free in time.
std::size_t message_in_cache(const Machine& machine) {
  const auto ranks = static_cast<std::size_t>(machine.ranks);
  return std::max(kSlotsInCache / (2 * ranks * ranks), kLeastMessage);
}

/// A tile has `parts`, each of them a message.
std::size_t tile_for(const Algorithm& algorithm, std::size_t bytes, const Machine& machine, const HostMap* hosts,
                     std::size_t parts, std::size_t limit) {
  const bool wide = is_wide(machine, hosts);
  const auto ranks = static_cast<std::size_t>(machine.ranks);
  const int known_hosts = hosts != nullptr ? hosts->hosts : machine.ranks;
  switch (algorithm.tiles) {
    case Tiles::kDownRanks:
      if (wide) return std::min(network_chain_tile(Bytes{bytes}, machine.ranks).value, limit);
      return std::clamp(bytes / (2 * ranks), std::min(kChainTileBytes, limit), limit);
    case Tiles::kDownHosts:
      return wide ? std::min(network_chain_tile(Bytes{bytes}, known_hosts).value, limit) : limit;
    case Tiles::kDownTrees:
      return wide ? std::min(network_tree_tile(Bytes{bytes}).value, limit) : limit;
    case Tiles::kInCache:
      if (wide || machine.on_device) return limit;
      return std::min(message_in_cache(machine) * parts, limit);
    default:
      return limit;
  }
}

/// The largest chunk of which a message holds as many as the algorithm sends in one; a multiple of the alignment.
std::size_t chunk_limit(const Machine& machine, const Extent& extent) {
  const std::size_t units = machine.max_message.value / extent.message_chunks / kPartAlign.value;
  return std::max(units, std::size_t{1}) * kPartAlign.value;
}

/// Whether messages hold the chunks that the algorithm sends in one, if they are as small as chunks may be made.
bool fits_messages(const Algorithm& algorithm, const Machine& machine, const HostMap* hosts) {
  const Extent extent = algorithm.extent(Shape{machine.ranks, 0, 0, 1, hosts});
  return extent.message_chunks == 1 ||
         chunk_limit(machine, extent) * extent.message_chunks <= machine.max_message.value;
}

}  // namespace

bool is_crowd(const Machine& machine) { return machine.ranks_per_core >= kCrowd && !machine.on_device; }

std::string_view automatic_algorithm(Collective collective, Bytes bytes_per_block, const Machine& machine,
                                     const HostMap* hosts) {
  if (is_wide(machine, hosts)) {
    return network_algorithm(collective, bytes_per_block, machine, hosts);
  }
  const bool crowd = is_crowd(machine);
  const bool many = machine.ranks > kAllPairsRanks && !(machine.deterministic && reduces(collective));
  const std::size_t bytes = bytes_per_block.value;
  switch (scheduled_as(collective)) {
    case Collective::kAllReduce:
      return all_reduce_name(bytes_per_block.value, machine);
    case Collective::kReduceScatter:
      return reduce_scatter_name(bytes, machine, many);
    case Collective::kAllGather:
      return many && !crowd ? "ring" : "all_pairs";
    case Collective::kBroadcast:
    case Collective::kReduce:
      if (!many || (crowd && (!reduces(collective) || bytes <= kCrowdedReduceBytes))) return "all_pairs";
      return bytes <= kManyRanksSmall ? "tree" : "chain";
    case Collective::kGather:
    case Collective::kScatter:
      return "all_pairs";
    case Collective::kAllToAll:
      return many && !crowd ? "pairwise" : "all_pairs";
    case Collective::kBarrier:
      if (crowd) return "linear";
      return machine.ranks > kAllPairsBarrierRanks ? "dissemination" : "all_pairs";
    default:
      return {};
  }
}

Choice choose(Collective collective, Bytes bytes_per_block, const Machine& machine, std::string_view forced_name,
              Bytes forced_tile, const HostMap* hosts) {
  const Collective scheduled = scheduled_as(collective);
  const Algorithm* algorithm = nullptr;
  bool refused = false;
  if (!forced_name.empty() && forced_name != "auto") {
    const Algorithm* const forced = find_algorithm(scheduled, forced_name);
    const bool serves = forced && (!machine.deterministic || is_deterministic(*forced)) &&
                        (scheduled == collective || is_ragged_capable(*forced)) &&
                        fits_messages(*forced, machine, hosts);
    if (serves) algorithm = forced;
    refused = !serves;
  }
  if (!algorithm) {
    const Bytes known = collective == Collective::kAllToAllV ? Bytes{0} : bytes_per_block;
    algorithm = find_algorithm(scheduled, automatic_algorithm(collective, known, machine, hosts));
  }
  if (!algorithm) return Choice{nullptr, 1, Bytes{0}, refused};
  Choice choice = choose(collective, bytes_per_block, machine, *algorithm, forced_tile, hosts);
  choice.name_refused = refused;
  return choice;
}

Choice choose(Collective collective, Bytes bytes_per_block, const Machine& machine, const Algorithm& algorithm,
              Bytes forced_tile, const HostMap* hosts) {
  const bool ragged = scheduled_as(collective) != collective;
  if (collective == Collective::kAllToAllV) bytes_per_block = Bytes{0};  // no rank knows the counts of all
  Choice choice;
  choice.algorithm = &algorithm;
  choice.lanes = ragged ? 1 : lanes_for(algorithm, bytes_per_block.value, machine, hosts);
  // A tile of parts * m bytes has parts of exactly m where m is a multiple of the alignment, and smaller tiles have
  // smaller parts: no chunk is larger than a message.
  const Extent extent = algorithm.extent(Shape{machine.ranks, 0, 0, choice.lanes, hosts});
  const std::size_t limit = chunk_limit(machine, extent) * extent.parts;
  const std::size_t wanted = forced_tile.value != 0
                                 ? forced_tile.value
                                 : tile_for(algorithm, bytes_per_block.value, machine, hosts, extent.parts, limit);
  choice.tile_bytes = Bytes{std::min(round_up(wanted, kPartAlign.value), limit)};
  return choice;
}

}  // namespace tutti
