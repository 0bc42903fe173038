// Plans: which schedule and tile a call runs with. Built once per shape, then found without a lock or an allocation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "collectives/choice/automatic_choice.h"
#include "collectives/choice/choice.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "schedule/schedule.h"

namespace tutti {

/// A rank's schedule and what the fast path has to know of it.
struct PlannedSchedule {
  Schedule schedule;
  /// One lane, one part a block, and no step has several chunks, scratch, or a set of ranks other than all.
  bool moves_whole_blocks = false;
};

/// What one call runs.
struct Plan {
  const Schedule* schedule = nullptr;
  Bytes tile;             ///< bytes of each block worked on in one pass
  bool one_pass = false;  ///< one pass over the program is the whole call, and moves nothing but whole blocks
};

/// One per communicator; used by the thread that runs the communicator's operation.
class PlanCache {
 public:
  /// `algorithm`: a name or "auto"; a name that a collective does not offer is warned of once, then auto serves it.
  /// `automatic`: the choice on this machine, which communicators may share.
  PlanCache(std::shared_ptr<const AutomaticChoice> automatic, Rank rank, std::string algorithm, Bytes tile,
            LogSource source)
      : automatic_(std::move(automatic)), rank_(rank), algorithm_(std::move(algorithm)), tile_(tile), source_(source) {}
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  /// The plan for blocks of `bytes`; of kAllGatherV the largest block, of kAllToAllV 0. A v-form has plans of its own,
  /// and may share a one-lane schedule with the plain form (`schedule->algorithm->collective` is the plain form then):
  /// a schedule holds neither sizes nor tiles. A repeat of the collective's last question about this root is answered
  /// by three compares.
  Plan find(Collective collective, Bytes bytes, int root) {
    const Plan* const known = recall(collective, bytes, root);
    if (known != nullptr) [[likely]]
      return *known;
    return find_slowly(collective, bytes, root);
  }
  /// Returns what find() does if it was asked lately, else nullptr. Never allocates.
  const Plan* recall(Collective collective, Bytes bytes, int root) const {
    const Recent& recent = recent_[place(collective, root)];
    const bool same = recent.plan.schedule != nullptr && recent.bytes == bytes && recent.root == root;
    return same ? &recent.plan : nullptr;
  }

  /// The plan for an operation that is not commutative. Its algorithm combines all operands in rank order.
  Plan find_in_rank_order(Collective collective, Bytes bytes, int root);
  /// What would be chosen; any thread.
  Choice choice(Collective collective, Bytes bytes) const;

  /// Whether TUTTI_ALGO may name that algorithm for the collective; any thread.
  bool offers(Collective collective, std::string_view name) const {
    return !choose(collective, Bytes{0}, machine(), name, tile_, hosts()).name_refused;
  }

  /// The machine and the map are those of AutomaticChoice.
  const Machine& machine() const { return automatic_->machine(); }
  const HostMap* hosts() const { return automatic_->hosts(); }
  /// Memory of the schedules built so far.
  std::uint64_t bytes() const;

 private:
  struct Recent {
    Bytes bytes;
    int root = -1;
    Plan plan;
  };
  /// Roots that take turns have a place each, up to this many.
  static constexpr std::size_t kRoots = 8;
  static std::size_t place(Collective collective, int root) {
    return static_cast<std::size_t>(collective) * kRoots + static_cast<std::size_t>(root) % kRoots;
  }
  using Key = std::tuple<const Algorithm*, int, int>;  // algorithm, root, lanes

  Plan find_slowly(Collective collective, Bytes bytes, int root);
  Plan plan_of(const Choice& choice, Bytes bytes, int root);

  std::shared_ptr<const AutomaticChoice> automatic_;  ///< schedules point into its map
  Rank rank_;
  std::string algorithm_;
  Bytes tile_;
  LogSource source_;
  std::array<Recent, kCollectives * kRoots> recent_{};
  std::map<Key, std::unique_ptr<const PlannedSchedule>> schedules_;
  std::array<bool, kCollectives> warned_{};
};

}  // namespace tutti
