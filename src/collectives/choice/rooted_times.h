// Closed forms for collectives with a root across hosts: what a broadcast, reduce, gather or scatter takes by each
// algorithm, by arithmetic alone (network_times.h has the others).
#pragma once

#include <algorithm>
#include <array>

#include "core/machine.h"
#include "core/types.h"
#include "core/units.h"
#include "schedule/generator.h"

namespace tutti {

/// Predicts one call on an idle network, until its slowest rank is done. Times are whole numbers, so they are the same
/// on all ranks. A plain value.
class RootedTimes {
 public:
  /// `bytes`: of the call, or of a block where there is one a rank. `hosts`: who shares one; nullptr: nobody. There are
  /// two hosts or more. `machine` must outlive it.
  RootedTimes(const Machine& machine, const HostMap* hosts, Bytes bytes);

  /// Broadcast down a tree in which a rank has up to radix - 1 children on each level (knomial.h; tree.h for 2). All
  /// ranks are in different hosts.
  Time broadcast_tree(std::int32_t radix) const;
  /// Down a binomial tree of hosts, then within each (hierarchical_broadcast.h).
  Time broadcast_tree_of_hosts() const;
  Time broadcast_double_tree() const;
  Time scatter_all_gather() const;
  /// Along a chain of hosts in tiles, and within each.
  Time broadcast_chain() const;

  /// Down double trees of hosts, or up, in tiles, a share a driver (hierarchical_double_tree.h).
  Time broadcast_double_tree_of_hosts() const;
  Time reduce_double_tree_of_hosts() const;

  /// Down a tree of hosts in which one has up to radix - 1 children on each level, or up, a share a driver
  /// (hierarchical_knomial.h).
  Time broadcast_knomial_of_hosts(std::int32_t radix) const;
  Time reduce_knomial_of_hosts(std::int32_t radix) const;

  /// Reduce up the same trees, and along a chain of all ranks in tiles.
  Time reduce_tree(std::int32_t radix) const;
  Time reduce_tree_of_hosts() const;
  Time reduce_double_tree() const;
  Time reduce_chain() const;

  /// Gather or scatter: all blocks straight between the root and their ranks; collected and handed on in a tree
  /// (knomial_blocks.h); or by a leader of each host (hierarchical_gather.h).
  Time blocks_straight(Collective collective) const;
  Time blocks_in_tree(Collective collective, std::int32_t radix) const;
  Time blocks_by_leaders(Collective collective) const;

 private:
  /// The times of one message: of the processors at its ends, of its way, and of its host's link.
  struct Message {
    Time sends = 0;
    Time receives = 0;
    Time latency = 0;
    Time wire = 0;  ///< 0 within a host

    Time hop() const { return sends + latency + wire + receives; }
    /// Messages in a row take so long each.
    Time pace() const { return std::max({sends, receives, wire}); }
    /// Through a rank that passes on what it gets.
    Time pace_through() const { return std::max(sends + receives, wire); }
  };
  /// One level of a tree whose edges all go to other hosts.
  struct Level {
    std::int32_t children;  ///< of a rank
    std::int32_t span;      ///< ranks of a child's subtree
  };
  static constexpr std::size_t kMostLevels = 32;
  struct Levels {
    std::array<Level, kMostLevels> of;  ///< from the leaves up
    std::size_t count = 0;
    std::int32_t children = 0;  ///< of the root, on all levels

    const Level& top() const { return of[count - 1]; }
    std::int32_t depth() const { return static_cast<std::int32_t>(count); }
  };
  /// The levels of a k-nomial tree of so many places.
  static Levels levels(std::int64_t places, std::int32_t radix);
  /// A k-nomial tree of places in different hosts, with a message `one` for each edge.
  static Time down_tree(std::int64_t places, std::int32_t radix, const Message& one);
  static Time up_tree(std::int64_t places, std::int32_t radix, const Message& one);
  /// A message of a tree of all ranks between hosts. Where ranks of a host are no neighbours, all of them send at once.
  Message far_in_tree(std::size_t bytes, std::int64_t blocks = 1) const;

  /// `one` with the processor times that it has if all ranks of a host send or receive such a message at once, and
  /// ranks that share a core take turns.
  Message in_turn(Message one) const;
  /// The time that ranks of one core lose by handing it to each other. `hops`: how many the tree has.
  Time handovers(std::int32_t hops) const;
  /// `adds`: who receives it adds it to what it has. `blocks`: of so many bytes each.
  Message far(std::size_t bytes, bool adds = false, std::int64_t blocks = 1) const;
  Message near(std::size_t bytes, bool adds = false) const;
  /// The others of a host get what one of them has, or it gets what they have.
  Time spread_within(std::size_t bytes) const;
  Time gather_within(std::size_t bytes, bool adds) const;
  /// So many messages to one rank. They are on the wires together, so that none is there much before the last one.
  static Time from_several(std::int32_t count, const Message& one);
  /// Or from one rank: the processor sends one after the other.
  static Time to_several(std::int32_t count, const Message& one);
  /// In scatter_all_gather(): when parts have come around to the last host. `past_host`: from one host to the next.
  Time first_around(std::size_t bytes, Time past_host) const;
  /// The data goes in tiles, each of them in a message for each lane and driver.
  struct Tiles {
    std::size_t message;
    std::int64_t others;  ///< tiles after the first one
  };
  Tiles tiles(Bytes tile, int lanes) const;
  /// A driver's, while all drivers of its host send at once.
  Message far_of_driver(std::size_t bytes, bool adds) const;
  std::int32_t others_that_drive() const { return std::min(drivers_, each_ - 1); }
  /// The processor time in which a rank hands a message to each other rank of its host, and receives as many.
  Time within(const Message& near) const;
  /// Tiles follow one another in so long at least: until a credit has come back, so many messages may be under way.
  Time credit_pace(const Message& far) const { return (far.hop() + far.latency) / static_cast<Time>(machine_.credits); }
  /// `adds`: up, else down.
  Time double_tree_of_hosts(bool adds) const;
  /// The time in which a host's memory moves its ranks' buffers; 0 if they fit in its caches.
  Time memory() const;
  /// Like memory(), but longer by the pauses in which all ranks wait for the network and memory has nothing to do.
  Time memory_with_pauses() const { return memory() + memory() / 5; }
  /// time_of_further_runs() between hosts.
  Time passes(std::size_t bytes, std::int32_t hops) const;

  const Machine& machine_;
  const LinkCosts tcp_;
  const std::size_t bytes_;
  const std::int32_t ranks_;
  const std::int32_t hosts_;
  const std::int32_t each_;     ///< ranks of the largest host
  const std::int32_t drivers_;  ///< of each host
  const std::int64_t turns_;    ///< ranks of a host that share a core, one after the other
  const bool neighbours_;       ///< the ranks of each host follow one another
};

}  // namespace tutti
