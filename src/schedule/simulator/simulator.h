// The simulator: when does each rank finish a schedule, on a described network? It walks the generator as the executor
// does (lanes, tiles, credits, multicast links) and charges LogGP costs (docs/simulation.md).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/costs.h"
#include "schedule/generator.h"

namespace tutti {

/// Hosts under switches: a leaf carries so many hosts, and its way up to the other leaves only part of what they can
/// send together. Above the leaves nothing is scarce.
struct FatTree {
  std::int32_t hosts_per_leaf = 0;              ///< 0: one switch for all hosts
  std::int32_t oversubscription_percent = 100;  ///< 400: the way up carries a quarter of the hosts' links
  std::vector<std::int32_t> places;             ///< of the hosts, leaf after leaf; empty: host h has place h

  /// 0 if there is one switch.
  std::int32_t leaf_of(std::int32_t host) const {
    if (hosts_per_leaf <= 0) return 0;
    return (places.empty() ? host : places[static_cast<std::size_t>(host)]) / hosts_per_leaf;
  }
};

/// A host that is slower than the others.
struct SlowHost {
  std::int32_t host = 0;
  std::int32_t work_percent = 100;  ///< 200: its processors and its memory take twice as long
  std::int32_t link_percent = 100;  ///< 400: its link carries a quarter of the others', each way
};

/// Where the ranks run. Which ranks share a host is Shape::hosts'.
struct Network {
  Costs costs;
  bool tcp = false;  ///< pairs that are not known to share a host are connected by tcp; without a map all pairs
  bool same_boot_id = false;  ///< all hosts are one machine's: they share its cores and its memory
  FatTree tree;
  std::vector<SlowHost> slow_hosts;  ///< a host at most once
};

struct SimulatedCall {
  Shape shape;                ///< `rank` is ignored
  Bytes block;                ///< the call's count in bytes, as choose() takes it
  Bytes tile;                 ///< of each block and pass
  std::uint32_t credits = 4;  ///< large messages that a link holds, at least 1; of up to 4 KiB it holds 16
  /// Calls follow one another without a pause, as in a benchmark's loop: the time from one to the next. Else the time
  /// of one call that all ranks begin at once.
  bool repeated = false;
};

enum class SimulationMethod : std::uint8_t {
  kEvents,    ///< all ranks, event by event
  kSymmetry,  ///< ranks that do the same at the same time: one group of them stands for all
  kTooLarge,  ///< not simulated: more steps than the limit
  kTooSlow,   ///< not simulated to its end: slower than the limit
};
const char* name_of(SimulationMethod method);

struct Prediction {
  Time time = 0;  ///< until the last rank has finished
  SimulationMethod method = SimulationMethod::kEvents;
  std::int32_t simulated_ranks = 0;  ///< that stand for all
  std::size_t passes = 0;            ///< passes of the program that were simulated
  std::size_t tiles = 0;             ///< passes of the program; those not simulated are taken to go at the same pace
  std::uint64_t steps = 0;           ///< that were simulated
};

/// One step of one rank, as it happened.
struct SimulatedStep {
  std::int32_t rank;
  std::uint32_t lane;
  std::uint32_t pass;
  std::uint32_t number;
  Time begin;  ///< when all that it waits for was there
  Time end;
  Step step;
};

/// One message, from the commit of the sender's step to when its reader could see it.
struct SimulatedMessage {
  std::int32_t from;
  std::int32_t to;
  std::uint32_t lane;
  bool multicast;  ///< by the sender's multicast link
  std::uint32_t pass;
  std::uint32_t chunk;
  std::size_t bytes;
  Time sent;
  Time seen;
};

/// What happened, for drawings.
struct Trace {
  std::vector<SimulatedStep> steps;
  std::vector<SimulatedMessage> messages;
};

struct SimulationLimits {
  std::uint64_t steps = 400'000'000;  ///< beyond: kTooLarge
  std::size_t passes = 8;             ///< simulated at most; at least 4
  bool symmetry = true;               ///< whether ranks may stand for others
  /// A loop ends when its calls, or the tiles of calls that have many, have come to repeat.
  bool until_repeats = false;
  /// A loop that does not come to repeat ends after so many steps if `until_repeats` is set. It has had at least 24
  /// tiles by then, and four whole calls if a call has few tiles.
  std::uint64_t enough_steps = std::numeric_limits<std::uint64_t>::max();
  /// The longest time of a call that is of interest. A single call that takes longer ends as kTooSlow. With
  /// `until_repeats` a loop of 16 calls or more does, too, if its early calls (the second half of the first eighth)
  /// take more than twice as long. No rank may finish a call of such a loop before all ranks have begun it, because
  /// early calls tell too much where the first ranks run ahead.
  Time longest = std::numeric_limits<Time>::max();
};

class Simulation;

/// Keeps its memory from call to call, so that a simulation of few ranks allocates nothing. One thread. Deterministic:
/// equal arguments, equal times, on any machine.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// `trace`: gets what happened (of all ranks, so never by symmetry); nullptr: nobody asks.
  Prediction simulate(const Algorithm& algorithm, const SimulatedCall& call, const Network& network,
                      const SimulationLimits& limits = {}, Trace* trace = nullptr);

  /// When each simulated rank finished the last simulated pass. After an early end the times mean nothing.
  std::span<const Time> finish() const;

 private:
  std::unique_ptr<Simulation> simulation_;
};

/// Ranks r and r + period do the same at the same time, for every r: the smallest such period, a divisor of the number
/// of ranks; the number of ranks: there is none. Never less than a host, or a leaf of the tree. Compares the steps of
/// some ranks around the circle: what it says of an algorithm is shown by a test to hold for all ranks of small n.
std::int32_t symmetry_period(const Algorithm& algorithm, const Shape& shape, const Network& network);

}  // namespace tutti
