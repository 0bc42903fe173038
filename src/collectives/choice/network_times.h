// Closed forms: what an all-reduce across hosts takes by each algorithm, for any number of ranks in a microsecond. They
// decide where the simulator would take too long (automatic_choice.h).
#pragma once

#include "core/machine.h"
#include "core/units.h"
#include "schedule/generator.h"

namespace tutti {

/// Predicts one call on an idle network: the hops one after the other, and in each the longer of what processors and
/// links take. Times are whole numbers, so they are the same on all ranks. A plain value.
class NetworkTimes {
 public:
  /// `hosts`: who shares one; nullptr: nobody. There are two hosts or more. `machine` and `hosts` must outlive it.
  NetworkTimes(const Machine& machine, const HostMap* hosts, Bytes bytes);

  /// Leaders alone, one hop or recursive doubling; with a rank a host, the latter.
  Time leaders() const;
  /// Rings of drivers.
  Time ring() const;
  /// recursive_exchange.h with so many rounds that scatter.
  Time exchange(std::int32_t scattered) const;

 private:
  /// A driver sends and receives so many messages of `bytes`, while `drivers` of its host do the same.
  Time hop(std::int32_t messages, std::size_t bytes, std::int32_t drivers) const;
  /// Each rank of a host sends every driver what it has of that one's share, and gets the results, in so many pieces.
  Time spread_within(std::int32_t pieces) const;
  /// What the buffers of a host's ranks take that are beyond its caches.
  Time memory() const;
  Time passes(std::size_t bytes, std::int32_t hops) const;

  const Machine& machine_;
  const Shape shape_;
  const LinkCosts tcp_;
  const std::size_t bytes_;
  const std::int32_t count_;    ///< hosts
  const std::int32_t each_;     ///< ranks of the largest host
  const std::int32_t drivers_;  ///< of each host
};

}  // namespace tutti
