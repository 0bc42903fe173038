// The library's own choice of an algorithm: by predicted time where the ranks' costs are known, else by thresholds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "collectives/choice/choice.h"
#include "core/machine.h"
#include "core/mutex.h"
#include "schedule/host_map.h"

namespace tutti {

/// A function of the machine alone, so all ranks choose alike, and communicators on equal machines may share it. Any
/// thread.
class AutomaticChoice {
 public:
  explicit AutomaticChoice(const Machine& machine);
  AutomaticChoice(const AutomaticChoice&) = delete;
  AutomaticChoice& operator=(const AutomaticChoice&) = delete;

  /// The machine, with Machine::hosts empty: hosts() says the same.
  const Machine& machine() const { return machine_; }
  /// Whether this is the choice for that machine.
  bool is_for(const Machine& machine) const;
  /// The map of Machine::hosts, nullptr where that is empty; as long as this object.
  const HostMap* hosts() const { return topology_ == nullptr ? nullptr : &topology_->map(); }

  /// Collective and block as choose() takes them. Sizes are taken together, two groups an octave: the first question in
  /// a group costs some milliseconds of simulation, the others a load.
  const Algorithm* find(Collective collective, Bytes block) const;

  /// Whether costs decide for such ranks at all: they must be those of the links between them, and not too many to
  /// simulate.
  static bool is_modelled(const Machine& machine);

 private:
  static constexpr std::size_t kGroups = 96;  // up to 2^47 bytes; more are as 2^47
  static std::size_t group_of(Bytes block);
  static Bytes largest_of(std::size_t group);

  Machine machine_;
  const std::unique_ptr<const Topology> topology_;
  mutable Mutex mutex_;  // one simulation at a time
  /// Place in the catalogue + 1; 0: not asked yet. Relaxed: whoever computes it gets the same.
  mutable std::array<std::array<std::atomic<std::uint8_t>, kGroups>, kCollectives> found_{};
};

}  // namespace tutti
