// The cost model: what a call takes on this machine by each algorithm, as the simulator predicts it from the costs that
// the ranks agreed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/choice/choice.h"
#include "core/machine.h"
#include "core/units.h"
#include "schedule/generator.h"
#include "schedule/simulator/simulator.h"

namespace tutti {

/// One thread at a time. Keeps the simulator's memory from question to question.
class CostModel {
 public:
  static constexpr Time kNever = INT64_MAX;
  /// Predictions that differ by less than this (in percent) may as well be the other way round. It is their median
  /// error against measured times: of ranks that share their cores, for whom the thresholds were measured, and between
  /// hosts.
  static constexpr Time margin(const Machine& machine) { return machine.same_boot_id ? 20 : 5; }

  /// `hosts` (of Machine::hosts; nullptr: all ranks on one) must outlive it.
  CostModel(const Machine& machine, const HostMap* hosts);

  /// The time from one call to the next, in a loop of such calls, or of one call where there is a root, with the lanes
  /// and the tile that choose() gives the algorithm; kNever where it is not simulated: choose() refuses its name, or it
  /// has too many steps, or it turns out to take longer than `longest`.
  Time predict(const Algorithm& algorithm, Collective collective, Bytes block, int root, Time longest = kNever);

  /// Picks the preferred one of the predicted times, which are in the order of the catalogue, if it is within `margin`
  /// percent of the shortest, else the first that is. Returns its place. A `preferred` beyond the last prefers none.
  static std::size_t pick(std::span<const Time> times, std::size_t preferred, Time margin);
  /// Chooses among the algorithms whose predicted time is within the margin: the one that thresholds name
  /// (automatic_algorithm()), else the first of the catalogue, where the simpler ones come first. Returns nullptr if
  /// none could be simulated.
  const Algorithm* best(Collective collective, Bytes block);
  /// Whether best() looks at it: hierarchical ones only where there are several hosts, and most only where some have
  /// several ranks.
  bool is_candidate(const Algorithm& algorithm, Collective collective) const;
  /// Returns those that best() simulates, each program once. `usual` is the name of the one that thresholds name.
  std::vector<const Algorithm*> candidates_for(Collective collective, Bytes block, std::string_view usual) const;

 private:
  std::vector<int> roots_for(Collective collective) const;
  Time predict_any_root(const Algorithm& algorithm, Collective collective, Bytes block, Time longest);

  Machine machine_;
  const HostMap* hosts_;
  Network network_;
  Simulator simulator_;
};

}  // namespace tutti
