// Closed forms: what a collective across hosts takes by each algorithm, by arithmetic alone. They
// decide where the simulator would take too long (automatic_choice.h).
#pragma once

#include "core/machine.h"
#include "core/units.h"
#include "schedule/generator.h"

namespace tutti {

/// Returns the costs of the network. If nobody knows its rate, they are those of 2.5 Gbit/s and kUsualNetworkLatency:
/// an algorithm for a slower network than there is costs less than one for a faster network.
LinkCosts network_costs(const Machine& machine);

/// Larger calls are predicted as these, and no part of a time is longer than kLongestPart, so sums are times, too.
inline constexpr std::size_t kMostPredictedBytes = std::size_t{1} << 30;
inline constexpr Time kLongestPart = Time{1} << 55;
/// At most kLongestPart.
Time product(std::int64_t count, Time time);
/// The longest message of a schedule would have `bytes`; it runs once for each message that these begin. Returns the
/// time in which its further runs wait for so many hops of `latency` once more.
Time time_of_further_runs(const Machine& machine, std::size_t bytes, std::int32_t hops, Time latency);

/// Predicts one call on an idle network: the hops one after the other, and in each the longer of what processors and
/// links take. Times are whole numbers, so they are the same on all ranks. A plain value.
class NetworkTimes {
 public:
  /// `bytes`: of the call, or of a block where there is one a rank. `hosts`: who shares one; nullptr: nobody. There are
  /// two hosts or more. `machine` and `hosts` must outlive it.
  NetworkTimes(const Machine& machine, const HostMap* hosts, Bytes bytes);

  /// Leaders alone, one hop or recursive doubling; with a rank a host, the latter.
  Time leaders() const;
  /// Rings of drivers.
  Time ring() const;
  /// One ring of all ranks, where those of each host follow one another: a hop between hosts for each host.
  Time ring_of_ranks() const;
  /// Each rank adds up a part of all ranks' data and sends the result to all (all_pairs.h). All ranks are in different
  /// hosts.
  Time two_shots() const;
  /// recursive_exchange.h with so many rounds that scatter.
  Time exchange(std::int32_t scattered) const;

  /// All-gather or reduce-scatter, which `adds`: rings of drivers, each with its ranks' blocks.
  Time rings_of_blocks(bool adds) const;
  /// In log2 n rounds of all ranks, in whose messages up to half of the blocks travel together (bruck.h,
  /// recursive_halving.h).
  Time blocks_together(bool adds) const;
  /// In messages that carry a group of neighbouring blocks (pat.h).
  Time blocks_in_groups(bool adds) const;
  /// Hosts in rounds, each driver with another one (hierarchical_rounds.h).
  Time rows_in_rounds(bool adds) const;

  /// All-to-all, all-gather or reduce-scatter: each block by itself (all_pairs.h).
  Time blocks_apart(Collective collective) const;
  /// The blocks of a host's drivers together, in so many rounds between hosts (hierarchical_all_to_all.h).
  Time blocks_by_hosts(std::int32_t rounds) const;
  /// In log2 n rounds of all ranks (bruck.h).
  Time blocks_in_rounds() const;

 private:
  /// So many ranks of a host share a core, one after the other.
  std::int64_t turns(std::int32_t ranks) const;
  /// A driver sends and receives so many messages of `bytes`, while `drivers` of its host do the same.
  Time processors_of_hop(std::int32_t messages, std::size_t bytes) const;
  Time hop(std::int32_t messages, std::size_t bytes, std::int32_t drivers) const;
  /// What a message within a host costs both its ends, but for its bytes.
  Time overheads_within(std::size_t bytes) const;
  /// Each rank of a host sends every driver what it has of that one's share, and gets the results, in so many pieces.
  Time spread_within(std::int32_t pieces) const;
  /// The time in which a host's memory reads and writes the buffers of all its ranks; 0 if they fit in its caches.
  Time memory() const;
  Time passes(std::size_t bytes, std::int32_t hops) const;
  /// Memory's time for an all-gather or reduce-scatter, where one side has a block and the other one a block of each.
  Time memory_of_results() const;
  /// The time of blocks_apart() without memory's, for blocks of `bytes` that are sent in `messages` messages each.
  Time blocks_apart(Collective collective, std::size_t bytes, std::int64_t messages) const;
  /// Memory's time for an all-to-all, whose ranks have a block for each.
  Time memory_of_blocks() const;
  /// All blocks come to every rank of a host, each over the host's link and by its processor.
  Time blocks_to_all(bool adds) const;

  const Machine& machine_;
  const Shape shape_;
  const LinkCosts tcp_;
  const std::size_t bytes_;
  const std::int32_t count_;    ///< hosts
  const std::int32_t each_;     ///< ranks of the largest host
  const std::int32_t drivers_;  ///< of each host
  const std::int64_t turns_;    ///< of all ranks of that host
};

}  // namespace tutti
